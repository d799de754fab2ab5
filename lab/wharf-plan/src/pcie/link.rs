//! The properties of a link, and the bits a second that it leaves for transaction layer packets.

/// Lane counts of the specification's tables.
pub(crate) const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];
/// Sizes of payload and read requests.
pub(crate) const SIZES: [u32; 6] = [128, 256, 512, 1024, 2048, 4096];
/// Read completion boundaries of root complexes.
pub(crate) const BOUNDARIES: [u32; 2] = [64, 128];

/// Bytes of an acknowledgement or flow control packet: 2 of framing, 4 of content, 2 of check.
const DLLP_BYTES: u128 = 8;
/// Clock compensation: so many bytes on a lane in every [`SKIP_INTERVAL`].
const SKIP_BYTES: u128 = 4;
const SKIP_INTERVAL: u128 = 1538;
/// Bytes of a flit, and those of them for TLPs (PCI Express 6.0).
const FLIT_BYTES: u128 = 256;
const FLIT_TLP_BYTES: u128 = 236;
/// Header, sequence number, check and framing of a TLP, as in the specification's formula for limits.
const TLP_OVERHEAD_BYTES: u32 = 28;

/// A generation of PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2.5 GT/s, 8b/10b.
    Gen1,
    /// 5 GT/s, 8b/10b.
    Gen2,
    /// 8 GT/s, 128b/130b.
    Gen3,
    /// 16 GT/s, 128b/130b.
    Gen4,
    /// 32 GT/s, 128b/130b.
    Gen5,
    /// 64 GT/s in flits of 256 bytes: 236 of TLPs, 6 of acknowledgements and credits, 8 of check, 6 of error correction.
    /// An estimate: flits that are sent again, or not filled, are not charged.
    Gen6,
}

impl Generation {
    /// All, the oldest first.
    pub const ALL: [Self; 6] = [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6];

    /// Returns the generation of this number, 1 to 6.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|generation| generation.number() == number)
    }

    /// Returns its number, 1 to 6.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    /// True if its figures are an estimate.
    pub fn is_estimate(self) -> bool {
        self == Self::Gen6
    }

    /// Returns the transfers a second on a lane, in millions.
    pub fn megatransfers(self) -> u32 {
        match self {
            Self::Gen1 => 2500,
            Self::Gen2 => 5000,
            Self::Gen3 => 8000,
            Self::Gen4 => 16_000,
            Self::Gen5 => 32_000,
            Self::Gen6 => 64_000,
        }
    }

    /// Returns the number of data bits, and the number of bits that carry them on the lane.
    fn coding(self) -> (u128, u128) {
        match self {
            Self::Gen1 | Self::Gen2 => (8, 10),
            Self::Gen3 | Self::Gen4 | Self::Gen5 => (128, 130),
            Self::Gen6 => (242, 256),
        }
    }

    /// Returns a receiver's time to answer, in symbols: the specification's InternalDelay.
    fn internal_delay(self) -> u32 {
        match self {
            Self::Gen1 => 19,
            Self::Gen2 => 70,
            _ => 115,
        }
    }
}

/// The way that a host cuts the answer to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completions {
    /// Completions of up to the maximum payload, ending at completion boundaries.
    #[default]
    Payload,
    /// At every completion boundary, as some older chip sets do.
    Boundary,
}

/// A negotiated link. [`Link::new`] and the setters permit only values of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    generation: Generation,
    lanes: u32,
    mps_bytes: u32,
    mrrs_bytes: u32,
    rcb_bytes: u32,
    completions: Completions,
}

/// An invalid property, with the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value} cannot be: {allowed}")]
pub struct LinkError {
    /// The property.
    pub key: &'static str,
    /// The value given.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

/// Returns `value` if it is one of `allowed`.
fn one_of(key: &'static str, value: u32, allowed: &[u32]) -> Result<u32, LinkError> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let names: Vec<String> = allowed.iter().map(u32::to_string).collect();
    Err(LinkError { key, value: value.to_string(), allowed: format!("one of {}", names.join(", ")) })
}

impl Link {
    /// Creates a link with a maximum payload of 256 bytes, read requests of 512 and a completion boundary of
    /// 64, as servers set them.
    ///
    /// # Errors
    /// Lanes other than 1, 2, 4, 8, 12, 16 or 32.
    pub fn new(generation: Generation, lanes: u32) -> Result<Self, LinkError> {
        let lanes = one_of("lanes", lanes, &LANES)?;
        let (mps_bytes, mrrs_bytes, rcb_bytes) = (256, 512, 64);
        Ok(Self { generation, lanes, mps_bytes, mrrs_bytes, rcb_bytes, completions: Completions::Payload })
    }

    /// Sets the maximum payload.
    ///
    /// # Errors
    /// Sizes other than powers of two from 128 to 4096.
    pub fn mps(self, bytes: u32) -> Result<Self, LinkError> {
        Ok(Self { mps_bytes: one_of("mps", bytes, &SIZES)?, ..self })
    }

    /// Sets the maximum read request.
    ///
    /// # Errors
    /// Sizes other than powers of two from 128 to 4096.
    pub fn mrrs(self, bytes: u32) -> Result<Self, LinkError> {
        Ok(Self { mrrs_bytes: one_of("mrrs", bytes, &SIZES)?, ..self })
    }

    /// Sets the read completion boundary.
    ///
    /// # Errors
    /// Sizes other than 64 and 128.
    pub fn rcb(self, bytes: u32) -> Result<Self, LinkError> {
        Ok(Self { rcb_bytes: one_of("rcb", bytes, &BOUNDARIES)?, ..self })
    }

    /// Sets the way that completions are cut.
    pub fn completions(self, completions: Completions) -> Self {
        Self { completions, ..self }
    }

    /// Returns its generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns its lanes.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Returns the maximum payload of a TLP, in bytes.
    pub fn mps_bytes(&self) -> u32 {
        self.mps_bytes
    }

    /// Returns the maximum read request, in bytes.
    pub fn mrrs_bytes(&self) -> u32 {
        self.mrrs_bytes
    }

    /// Returns the read completion boundary, in bytes.
    pub fn rcb_bytes(&self) -> u32 {
        self.rcb_bytes
    }

    /// Returns the way that reads are answered.
    pub fn completion_cut(&self) -> Completions {
        self.completions
    }

    /// Returns the bits a second on all lanes, after coding.
    pub fn raw_bits_per_second(&self) -> u64 {
        let (data, line) = self.generation.coding();
        rounded(self.line_bits_per_second() * data, line)
    }

    /// True if TLPs travel in flits, without framing, sequence number and check of their own.
    pub(super) fn in_flits(&self) -> bool {
        self.generation == Generation::Gen6
    }

    fn line_bits_per_second(&self) -> u128 {
        u128::from(self.generation.megatransfers()) * 1_000_000 * u128::from(self.lanes)
    }

    /// Returns the bytes within which one acknowledgement is due, and one flow control update: the same
    /// formula for both.
    ///
    /// ((MPS + 28) x factor / lanes) + internal delay, in whole symbols. Two entries for 32 lanes of the
    /// public model's tables differ (flow control, generation 1, MPS 2048: 248; acknowledgement, generation
    /// 2, MPS 4096: 237). This gives 148 and 327; the model's other table differs from both.
    pub fn ack_limit_bytes(&self) -> u32 {
        let small = self.mps_bytes <= 256;
        let factor_tenths = match (self.lanes, small) {
            (1..=4, true) => 14,
            (8, true) => 25,
            (_, true) => 30,
            (1..=8, false) => 10,
            (_, false) => 20,
        };
        (self.mps_bytes + TLP_OVERHEAD_BYTES) * factor_tenths / (10 * self.lanes)
            + self.generation.internal_delay()
    }

    /// Returns the bits a second, each way, that are left for TLPs after acknowledgements, flow control and
    /// clock compensation.
    pub fn tlp_bits_per_second(&self) -> u64 {
        if self.in_flits() {
            return rounded(self.line_bits_per_second() * FLIT_TLP_BYTES, FLIT_BYTES);
        }
        let limit = u128::from(self.ack_limit_bytes());
        let (data, line) = self.generation.coding();
        // 1 - 8/limit (acknowledgements) - 8/limit (flow control) - 4/1538, over one denominator.
        let left = limit * SKIP_INTERVAL - 2 * DLLP_BYTES * SKIP_INTERVAL - SKIP_BYTES * limit;
        rounded(self.line_bits_per_second() * data * left, line * limit * SKIP_INTERVAL)
    }

    /// Returns the picoseconds that `bytes` of TLPs take on the link.
    pub fn picoseconds(&self, bytes: u64) -> u64 {
        rounded(u128::from(bytes) * 8 * 1_000_000_000_000, u128::from(self.tlp_bits_per_second()))
    }
}

/// Returns the nearest whole number, or the largest that there is.
fn rounded(number: u128, divisor: u128) -> u64 {
    u64::try_from((number + divisor / 2) / divisor).unwrap_or(u64::MAX)
}
