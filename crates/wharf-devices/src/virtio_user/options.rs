//! Settings of the driver.

use crate::virtio::Layout;
use std::time::Duration;
use wharf_core::device::LimitUnit;

/// Most queue pairs.
pub const PAIRS_MAX: u16 = 32;

/// Completion mode of the transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Napi {
    /// Any poll reaps, also one that receives. Senders are charged for a frame until then, and there is a
    /// byte queue limit.
    On {
        /// True if a poller on any processor reaps at any time. By default a processor other than the one
        /// that transmits reaps only after a notification, or if a thread waits.
        anywhere: bool,
    },
    /// The next transmit reaps. Senders are charged until the queue has the frame: only the ring bounds what
    /// they have in it, and there is no byte queue limit.
    Off,
    /// Likewise, and the poller reaps ten times a second.
    Timer,
}

/// Settings of a `virtio-user:` device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtioUserOptions {
    /// True to listen until a back end connects; else the driver connects.
    pub server: bool,
    /// True to wait for a back end that goes, and for the next one. If both record what is in flight, the
    /// next one goes on with the frames in the rings. Otherwise these fail as `peer-gone`, since it is
    /// unknown whether they have left. Later frames wait.
    pub reconnect: bool,
    /// Queue pairs, 1 to [`PAIRS_MAX`]: 1 by default. The back end must have as many. Each flow goes by one
    /// of them.
    pub pairs: u16,
    /// True for packed rings, else split.
    pub packed: bool,
    /// `Some(true)` if the back end must use buffers in order; by default in order if it offers that.
    pub in_order: Option<bool>,
    /// `Some(true)` if frames may arrive in several buffers; by default so if the back end offers that.
    pub mrg_rxbuf: Option<bool>,
    /// True to leave checksums and segmentation to the back end, if it offers that. Otherwise it need not
    /// read the header before a frame, and may copy short frames faster, as DPDK's does.
    pub offload: bool,
    /// Descriptors of each ring, 256 by default: a power of two up to 32768, packed ones any number.
    pub size: u16,
    /// Completion mode; [`Napi::On`] by default, on the processor that transmits.
    pub napi: Napi,
    /// True, the default, to copy frames into memory that only this device shares with the back end. That takes
    /// as much memory as the pool has, for each device.
    ///
    /// False *trusts the back end*: it maps the pool itself, and frames are used in place. A back end that
    /// writes to a buffer that is not lent to it then causes undefined behaviour in this process: see
    /// [`wharf_mem::Region::share_with_trusted_peer`]. It can also read each frame of the pool.
    pub copy: bool,
    /// Unit of the byte queue limit: bytes by default.
    pub limit_unit: LimitUnit,
    /// Time for all answers of a conversation (to agree on features, to start, to stop): 10 s by default. A
    /// back end that takes longer is gone.
    pub answers_within: Duration,
}

impl Default for VirtioUserOptions {
    fn default() -> Self {
        Self {
            server: false,
            reconnect: false,
            pairs: 1,
            packed: false,
            in_order: None,
            mrg_rxbuf: None,
            offload: true,
            size: 256,
            napi: Napi::On { anywhere: false },
            copy: true,
            limit_unit: LimitUnit::Bytes,
            answers_within: Duration::from_secs(10),
        }
    }
}

impl VirtioUserOptions {
    /// Checks that such rings, and that many, are possible.
    pub(super) fn check(&self) -> Result<(), String> {
        let layout = if self.packed { Layout::Packed } else { Layout::Split };
        layout.check_size(self.size.into()).map_err(|error| error.to_string())?;
        match self.pairs {
            1..=PAIRS_MAX => Ok(()),
            pairs => Err(format!("{pairs} queue pairs cannot be: 1 to {PAIRS_MAX}")),
        }
    }
}
