//! Packets by size.

use crate::nics::Cost;
use std::ops::RangeInclusive;

/// Sizes of frames, check sequence counted.
pub const SIZES: RangeInclusive<u64> = 64..=16384;
/// Bytes of the check sequence. People leave it out when they say a size, as `wharf send --size` does.
pub const CHECK_BYTES: u32 = 4;
/// Numbers of processors.
pub const CORES: RangeInclusive<u64> = 1..=4096;

/// Sizes and their weights: 7 to 4 to 1 of 64, 594 and 1518 bytes.
const IMIX: [(u32, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

/// Packets of one size, or of a mixture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    parts: Vec<(u32, u32)>,
}

/// An invalid size, with the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(String);

fn size(text: &str) -> Result<u32, LoadError> {
    let read = text.parse().ok().and_then(|size: u32| size.checked_add(CHECK_BYTES));
    let [least, most] = [SIZES.start(), SIZES.end()].map(|size| size - u64::from(CHECK_BYTES));
    read.filter(|&size| SIZES.contains(&u64::from(size)))
        .ok_or_else(|| LoadError(format!("want a frame without its check sequence, {least} to {most} bytes")))
}

impl Load {
    /// Creates frames of `size` bytes, check sequence included.
    pub fn one_size(size: u32) -> Self {
        Self { parts: vec![(size, 1)] }
    }

    /// Creates the simple Internet mixture: 64, 594 and 1518 bytes, 7 to 4 to 1.
    pub fn imix() -> Self {
        Self { parts: IMIX.to_vec() }
    }

    /// Parses a size without check sequence, as `wharf send --size` takes it.
    ///
    /// # Errors
    /// Sizes other than 60 to 16380.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        size(text).map(Self::one_size)
    }

    /// Returns `packets of 60 bytes (64 with check sequence)`, or the mixture's name.
    pub fn name(&self) -> String {
        match self.parts[..] {
            [(size, _)] => format!("packets of {} bytes ({size} with check sequence)", size - CHECK_BYTES),
            _ => "packets of 60, 590 and 1514 bytes without check sequence, 7 to 4 to 1".into(),
        }
    }

    /// Returns the weighted mean of `of` over all sizes.
    fn mean(&self, of: impl Fn(u32) -> u64) -> u64 {
        let weights: u128 = self.parts.iter().map(|part| u128::from(part.1)).sum();
        let sum: u128 =
            self.parts.iter().map(|&(size, weight)| u128::from(of(size)) * u128::from(weight)).sum();
        u64::try_from((sum + weights / 2) / weights).unwrap_or(u64::MAX)
    }

    /// Returns the mean bytes of a packet, in billionths.
    pub fn packet_bytes(&self) -> u64 {
        self.mean(|size| u64::from(size) * crate::nics::ONE)
    }

    /// Returns the mean cost of a packet.
    pub fn cost(&self, of: impl Fn(u32) -> Cost) -> Cost {
        let costs: Vec<(u32, Cost)> = self.parts.iter().map(|&(size, _)| (size, of(size))).collect();
        let mean = |field: fn(&Cost) -> u64| {
            self.mean(|size| costs.iter().find(|cost| cost.0 == size).map_or(0, |cost| field(&cost.1)))
        };
        Cost {
            to_nic_bytes: mean(|cost| cost.to_nic_bytes),
            to_host_bytes: mean(|cost| cost.to_host_bytes),
            reads: mean(|cost| cost.reads),
            fetches: mean(|cost| cost.fetches),
            doorbells: mean(|cost| cost.doorbells),
            pages: mean(|cost| cost.pages),
            nic_ps: mean(|cost| cost.nic_ps),
        }
    }
}

/// The sizes of a sweep, check sequence counted, every `step` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    first: u32,
    last: u32,
    step: u32,
}

impl Sweep {
    /// The sweep that reports draw by default.
    pub const DEFAULT: Self = Self { first: 64, last: 1518, step: 2 };

    /// Returns the sizes, including the last.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        let Self { first, last, step } = *self;
        let (first, last, step) = (first as usize, last as usize, step as usize);
        let odd = (!(last - first).is_multiple_of(step)).then_some(last);
        (first..=last).step_by(step).chain(odd).filter_map(|size| u32::try_from(size).ok())
    }
}

impl std::str::FromStr for Sweep {
    type Err = LoadError;

    /// Parses `size=60..1514` or `size=60..1514,step=64`, without check sequence.
    fn from_str(text: &str) -> Result<Self, LoadError> {
        let want =
            || LoadError("want sizes to go through, such as size=60..1514 or size=60..1514,step=64".into());
        let (sizes, step) = text.split_once(',').unwrap_or((text, "step=1"));
        let (first, last) =
            sizes.strip_prefix("size=").and_then(|sizes| sizes.split_once("..")).ok_or_else(want)?;
        let (first, last) = (size(first)?, size(last.trim_start_matches('='))?);
        let step = step.strip_prefix("step=").and_then(|step| step.parse().ok()).filter(|&step| step > 0);
        match step {
            Some(step) if first <= last => Ok(Self { first, last, step }),
            _ => Err(want()),
        }
    }
}
