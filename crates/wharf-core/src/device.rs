//! The driver author's contract. `docs/device-howto.md` walks through an implementation.

use crate::options::OptionError;
use crate::pool::Cache;
use std::os::fd::RawFd;
use std::sync::Arc;
use wharf_mem::{Batch, Frame, MemError, Region};

/// What a device can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Frames that it can hold; `None` for no bound.
    pub ring_frames: Option<u32>,
    /// Whether its completions say that a frame has really left. Without that there is no byte queue limit
    /// (`bql.enabled` is false), and quota and ring room bound the batch.
    pub real_completions: bool,
    /// Whether it gives frames back late, whenever that suits it: their senders are then not charged for what it holds, or
    /// they might wait for something that nobody looks for. So nothing but its ring bounds what a sender has in it.
    pub orphans: bool,
    /// Buffers of one frame that it can gather; 1 for devices that take no chains.
    pub segments_max: u16,
    /// Whether it cuts super-packets itself.
    pub segmentation: bool,
    /// Whether it fills in checksums.
    pub checksum: bool,
}

/// What can be wrong with a device. Each says what and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// It completed something that it does not hold: never given, or completed before.
    #[error("{device}: completion of slot {slot}, which holds no frame (ring of {ring_frames})")]
    NotHeld {
        /// Which device.
        device: String,
        /// The slot that it named.
        slot: u32,
        /// Slots that there are.
        ring_frames: u32,
    },
    /// More bytes completed than were queued.
    #[error("{device}: {source}")]
    OverCompletion {
        /// Which device.
        device: String,
        /// Both figures.
        source: crate::bql::BqlError,
    },
    /// All frames have come back, and with fewer bytes than they were given with.
    #[error("{device}: all frames completed, yet {in_flight_bytes} bytes of them did not")]
    UnderCompletion {
        /// Which device.
        device: String,
        /// Bytes that never came back.
        in_flight_bytes: u32,
    },
    /// A frame of a pool that the device was not attached to.
    #[error("{device}: {source}")]
    Memory {
        /// Which device.
        device: String,
        /// The frame and the pools.
        source: MemError,
    },
    /// The operating system refused something.
    #[error("{device}: {what}: {source}")]
    Io {
        /// Which device.
        device: String,
        /// What was tried.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// What it sends by is gone, or switched off: frames fail, for good or until it is back.
    #[error("{device}: {what}: {source}")]
    Lost {
        /// Which device.
        device: String,
        /// What is gone, and what brings it back if anything does.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A specification or a use that this device does not know.
    #[error("{device}: {what}")]
    Unsupported {
        /// Which device.
        device: String,
        /// What it does not support, and what it does.
        what: String,
    },
}

impl From<OptionError> for DeviceError {
    fn from(error: OptionError) -> Self {
        Self::Unsupported { device: error.subject, what: error.what }
    }
}

/// Notifications between a device and its other side, since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Those that came.
    pub interrupts: u64,
    /// Those that were sent, of frames and of memory for them.
    pub kicks: u64,
}

/// What a transmit call did, besides taking frames out of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transmitted {
    /// Whether it rang the doorbell.
    pub doorbell: bool,
    /// Whether it takes no more until completions have been reaped.
    pub stopped: bool,
}

/// Frames that have left a device.
#[derive(Debug)]
pub struct Completions {
    /// Those that were sent.
    pub sent: Batch,
    /// Those that failed, with the reason.
    pub failed: Vec<(Frame, &'static str)>,
}

impl Completions {
    /// Place for `capacity` sent frames.
    pub fn new(capacity: usize) -> Self {
        Self { sent: Batch::new(capacity), failed: Vec::new() }
    }

    /// Frames inside.
    pub fn len(&self) -> usize {
        self.sent.len() + self.failed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One transmit queue of a device, with its receive side.
///
/// The device owns the frames it has taken until it gives them back by [`Device::reap`]: it keeps each
/// `Frame` in a table, and a number read from a ring becomes a frame only by taking it out of that table.
pub trait Device: Send {
    /// Its name for messages, as in its specification: `wire`, `pcap:out.pcap`.
    fn name(&self) -> String;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// How it works on this machine, once it is attached to memory, where that may differ: `zero-copy`, `copy`.
    fn mode(&self) -> Option<&'static str> {
        None
    }

    /// The memory that its frames lie in. Called once, before anything else.
    ///
    /// # Errors
    /// The device cannot use this memory.
    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError>;

    /// Takes frames from the front of `batch`, in order, and leaves what it has no room for: it drops none.
    /// Rings at most one doorbell, and rings it if it took any unless `more` says that another call follows
    /// at once; it rings all the same if it stops. Whoever says `more` and then has no more calls
    /// [`Device::flush`].
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted;

    /// Rings the doorbell that a call with `more` has left out; whether there was one.
    fn flush(&mut self) -> bool;

    /// Gives back up to `budget` frames that have left, as far as `into` has room.
    ///
    /// # Errors
    /// The device completed what it does not hold. What it did hold is still good.
    fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError>;

    /// Frames that it holds.
    fn outstanding(&self) -> usize;

    /// Shows each frame that it holds to `see`, for audits.
    fn visit(&self, see: &mut dyn FnMut(&Frame));

    /// Receives up to `budget` frames into `to`, with memory from `cache`; how many.
    ///
    /// # Errors
    /// The device failed. An empty pool is none: frames then wait, or are dropped and counted by the device.
    fn receive(&mut self, _cache: &mut Cache, _to: &mut Batch, _budget: usize) -> Result<usize, DeviceError> {
        Ok(0)
    }

    /// Whether nothing will ever be received any more (the other end closed, the file is read).
    fn receive_ended(&self) -> bool {
        true
    }

    /// Whether super-packets may be received whole, of tens of kilobytes each: buffers that hold much of one are worth their
    /// memory then.
    fn receives_super_packets(&self) -> bool {
        false
    }

    /// Once it is closed: moves memory that waited in it for frames to arrive to the back of `to`, as far as there is room;
    /// how much. What was given to it to be sent comes back by [`Device::reap`].
    fn take_waiting(&mut self, _to: &mut Batch) -> usize {
        0
    }

    /// Shows how many frames were dropped before they could be received, by reason, since the device was opened:
    /// those that the kernel had no room for in a ring, above all.
    fn receive_drops(&mut self, _see: &mut dyn FnMut(&'static str, u64)) {}

    /// Asks for a notification at the next completion and the next arrival; false when one is due already: look again.
    /// Whatever happens after this call is told of, until [`Device::disarm`]; what happened before need not be.
    fn arm(&mut self) -> bool {
        true
    }

    /// Masks notifications while polling.
    fn disarm(&mut self) {}

    /// What changes with a notification: it becomes readable or writable, or does so once more. The same as long as the
    /// device is open; without one, pollers look from time to time.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Somebody waits for what has left: the next [`Device::reap`] gives it back, whatever the device would rather wait for.
    fn hurry(&mut self) {}

    /// What it counts of notifications, if it does.
    fn signals(&mut self) -> Option<Signals> {
        None
    }

    /// In how many nanoseconds the next completion is due, when the device knows.
    fn next_completion_ns(&self) -> Option<u64> {
        None
    }

    /// In how many nanoseconds the next frame arrives, when the device knows.
    fn next_arrival_ns(&self) -> Option<u64> {
        None
    }

    /// In how many nanoseconds, at most, [`Device::receive`] wants to be called again though nothing has told: where only a look
    /// shows that nothing can arrive any more. `None` where [`Device::wait_fd`] tells of that, too.
    fn next_look_ns(&self) -> Option<u64> {
        None
    }

    /// Ends the device: files are completed, memory is let go of. Frames still inside come back by `reap`,
    /// as failed.
    ///
    /// # Errors
    /// What could not be completed.
    fn close(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Closes a device that only receives, and gives the memory that waited in it for frames to come back to `cache`.
///
/// # Errors
/// See [`Device::close`].
pub fn close_receiver(device: &mut dyn Device, cache: &mut Cache) -> Result<(), DeviceError> {
    const BUDGET: usize = 64;
    let closed = device.close();
    let mut done = Completions::new(BUDGET);
    while device.outstanding() > 0 && device.reap(BUDGET, &mut done).is_ok() && !done.is_empty() {
        // What is another pool's goes on being out there.
        let _ = cache.give(&mut done.sent);
        done.sent = Batch::new(BUDGET);
        done.failed.drain(..).for_each(|(frame, _)| drop(cache.give_one(frame)));
    }
    while device.take_waiting(&mut done.sent) > 0 {
        let _ = cache.give(&mut done.sent);
        done.sent = Batch::new(BUDGET);
    }
    closed
}
