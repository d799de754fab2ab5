//! How a driver should be.

use crate::virtio::Layout;

/// Most queue pairs.
pub const PAIRS_MAX: u16 = 32;

/// When frames that have left are taken out of the transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Napi {
    /// By whoever polls, be it to receive; senders are charged for a frame until then, and there is a byte queue limit.
    On {
        /// Whether a poller on any processor does so at any time. By default another processor than that which transmits
        /// does only when it was told, or somebody waits.
        anywhere: bool,
    },
    /// After the next transmit. Senders are charged until the queue has the frame: nothing but the ring bounds what they
    /// have in it, and there is no byte queue limit.
    Off,
    /// As that, and ten times a second, by the poller.
    Timer,
}

/// How a `virtio-user:` device should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtioUserOptions {
    /// Whether it listens until a back end connects, in place of connecting to one.
    pub server: bool,
    /// Whether a back end that goes is waited for, and set up anew once it is back. What is in its rings as it goes fails, as
    /// `peer-gone`: whether it has left, nobody knows. What comes after that waits.
    pub reconnect: bool,
    /// Queue pairs, 1 to [`PAIRS_MAX`]: 1 by default. The back end must have as many. Each flow goes by one of them.
    pub pairs: u16,
    /// Whether its rings are packed, or split.
    pub packed: bool,
    /// Whether the back end must use buffers in order: where it offers that, by default.
    pub in_order: Option<bool>,
    /// Whether frames may arrive in several buffers: where the back end offers it, by default.
    pub mrg_rxbuf: Option<bool>,
    /// Whether checksums and the cutting of super-packets are left to the back end, where it offers that. Where they are not, it need
    /// not read the header before a frame, and may copy short frames faster: DPDK's does.
    pub offload: bool,
    /// Descriptors of each ring, 256 by default: a power of two up to 32768, packed ones any number.
    pub size: u16,
    /// When sent frames are taken back; [`Napi::On`] by default, on the processor that transmits.
    pub napi: Napi,
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
        }
    }
}

impl VirtioUserOptions {
    /// Whether there can be such rings, and so many.
    pub(super) fn check(&self) -> Result<(), String> {
        let layout = if self.packed { Layout::Packed } else { Layout::Split };
        layout.check_size(self.size.into()).map_err(|error| error.to_string())?;
        match self.pairs {
            1..=PAIRS_MAX => Ok(()),
            pairs => Err(format!("{pairs} queue pairs cannot be: 1 to {PAIRS_MAX}")),
        }
    }
}
