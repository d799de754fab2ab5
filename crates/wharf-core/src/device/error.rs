//! `DeviceError`: the errors of devices.

use crate::options::OptionError;
use wharf_mem::MemError;

/// Errors of a device. Each message names the device, the place and the figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device completed a frame that it does not hold: never given, or completed before.
    #[error("{device}: completion of slot {slot}, which holds no frame (ring of {ring_frames})")]
    NotHeld {
        /// Name of the device.
        device: String,
        /// The slot completed.
        slot: u32,
        /// Slots of the ring.
        ring_frames: u32,
    },
    /// More bytes completed than were queued.
    #[error("{device}: {source}")]
    OverCompletion {
        /// Name of the device.
        device: String,
        /// Both figures.
        source: crate::bql::BqlError,
    },
    /// All frames have come back, with fewer bytes than they were given with.
    #[error("{device}: all frames completed, yet {in_flight_bytes} bytes of them did not")]
    UnderCompletion {
        /// Name of the device.
        device: String,
        /// Bytes that never came back.
        in_flight_bytes: u32,
    },
    /// A frame of a pool that the device was not attached to.
    #[error("{device}: {source}")]
    Memory {
        /// Name of the device.
        device: String,
        /// The frame and the pools.
        source: MemError,
    },
    /// A system call failed.
    #[error("{device}: {what}: {source}")]
    Io {
        /// Name of the device.
        device: String,
        /// The attempt.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The line is switched off, or has no carrier: frames fail until it is up again.
    #[error("{device}: {what}: {source}")]
    Down {
        /// Name of the device.
        device: String,
        /// The part that is down, and the way to bring it up if there is one.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The interface or peer is gone: frames fail for good.
    #[error("{device}: {what}: {source}")]
    Gone {
        /// Name of the device.
        device: String,
        /// The part that is gone.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Frames completed as sent were lost behind the device, as it has learnt since: each is reported once.
    #[error("{device}: {what}: {source}")]
    Undelivered {
        /// Name of the device.
        device: String,
        /// The cause of the last one, and the way to mend it if there is one.
        what: String,
        /// Frames by reason, as far as no earlier error has counted them.
        counts: Vec<(&'static str, u64)>,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It cannot be opened, for a reason that a program may want to know.
    #[error("{device}: {what}{}", source.as_ref().map(|source| format!(": {source}")).unwrap_or_default())]
    Refused {
        /// Name of the device.
        device: String,
        /// The reason, to be matched.
        why: Refusal,
        /// The reason in words, and the way to mend it if there is one.
        what: String,
        /// The system's answer, if it was asked.
        source: Option<std::io::Error>,
    },
    /// A specification or a use that the device does not support.
    #[error("{device}: {what}")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// The unsupported part, and the supported ones.
        what: String,
    },
}

/// The reason that a device cannot be opened, where the system's answer does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A key of the specification or its value cannot be, or one is lacking.
    BadKey,
    /// The interface has no such queue.
    NoSuchQueue,
    /// The pool's memory exceeds the limit of locked memory (`RLIMIT_MEMLOCK`).
    LockedMemory,
}

impl From<OptionError> for DeviceError {
    fn from(error: OptionError) -> Self {
        Self::Refused { device: error.subject, why: Refusal::BadKey, what: error.what, source: None }
    }
}
