//! The driver author's contract: [`TxDevice`] has it in six points, with a whole device.
//!
//! A device is a transmit side ([`TxDevice`]), a receive side ([`RxDevice`]) or one object that is both
//! ([`Duplex`]). [`Device`] is common to all: name, memory, end. [`Notify`] is the interrupt line; a device
//! without one is polled. A wrapper forwards by [`delegate!`](crate::delegate) what it does not change.

mod any;
mod description;
mod error;
mod listener;

pub use any::{AnyDevice, TxSide};
pub(crate) use description::Description;
pub use error::{DeviceError, Refusal};
pub use listener::DeviceListener;

use crate::pool::Cache;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wharf_mem::{Batch, Frame, Region};
use wharf_packet::{flow_hash_seeded, traffic_class};

/// Reason of frames that a device held when it was closed to be opened anew.
pub const LOST: &str = "lost";
/// Reasons of frames that fail because their device is no more. The byte limit begins anew behind them.
pub(crate) const REASONS_OF_LOSS: [&str; 3] = [LOST, "gone", "peer-gone"];
/// Patience of a queue that may drop packets: what an ordinary program still waits for, and longer than a
/// peer takes to connect again.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Moment at which a transmit side gives frames back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompletionMode {
    /// When the layer below has taken the frame: it does not report when the frame leaves. There is no byte
    /// queue limit (`bql.enabled` is false); quota and ring room bound the batch.
    #[default]
    None,
    /// When the frame has really left. The byte queue limit learns from it.
    Real,
    /// When it suits the device (virtio-net without tx NAPI). Senders are then released when the device takes
    /// a frame, as by `skb_orphan`; only the ring bounds what they have in it.
    Late,
}

/// The unit that a device is limited by, in which its byte queue limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitUnit {
    /// A wire, or an adapter with a rate.
    #[default]
    Bytes,
    /// A ring of slots that another processor empties at its pace. Each packet counts as
    /// [`LIMIT_PACKET_BYTES`].
    Packets,
}

/// The bytes that a packet of any length counts as, where the limit counts packets: the algorithm knows no
/// unit, and bounds stay bytes.
pub const LIMIT_PACKET_BYTES: u32 = 1514;

impl LimitUnit {
    /// Returns its name, a word of options and of the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Packets => "packets",
        }
    }
}

/// Properties of a transmit side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxInfo {
    /// Frames that it can hold; `None` for no bound.
    pub ring_frames: Option<u32>,
    /// Moment at which it gives frames back.
    pub completions: CompletionMode,
    /// Unit of its byte queue limit: see [`TxInfo::in_packets`].
    #[doc(hidden)]
    pub limit_unit: LimitUnit,
    /// Buffers of one frame that it can gather; 1 for devices that take no chains.
    pub segments_max: u16,
    /// True if it segments super-packets itself.
    pub segmentation: bool,
    /// True if it segments super-packets of plain TCP, at least: see
    /// [`AdapterHeaders`](wharf_packet::gso::AdapterHeaders).
    pub tcp_segmentation: bool,
    /// True if it fills in checksums.
    pub checksum: bool,
    /// True if it gives frames that ask for it the time at which they have left: see
    /// [`Meta::ASKS_TIME`](wharf_mem::Meta::ASKS_TIME).
    pub timestamps: bool,
}

impl TxInfo {
    /// Has the byte queue limit count packets, not bytes: for a ring of slots that another processor empties
    /// at its pace.
    #[must_use]
    pub const fn in_packets(mut self) -> Self {
        self.limit_unit = LimitUnit::Packets;
        self
    }

    /// Describes a device that takes any frame: chains, super-packets, and checksums to be filled in.
    #[doc(hidden)]
    pub fn of_any_frame(ring_frames: usize, completions: CompletionMode) -> Self {
        Self {
            ring_frames: Some(ring_frames as u32),
            completions,
            segments_max: u16::MAX,
            segmentation: true,
            checksum: true,
            ..Self::default()
        }
    }

    /// Returns true if frames come back when they have really left.
    pub fn has_real_completions(&self) -> bool {
        self.completions == CompletionMode::Real
    }
}

/// The cause that a device works in no better mode than it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeReason {
    /// The better mode, and what refused it: `zero-copy refused: igb wants an XDP program attached; ...`.
    pub what: String,
    /// True if a user can do something about it; false if this driver or kernel has no better mode.
    pub is_curable: bool,
}

/// A figure of a device's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Its name, a word of the JSON output: `pairs_in_use`.
    pub name: &'static str,
    /// The queue pair that it is of; `None` if it is of the device.
    pub pair: Option<u32>,
    /// Its value.
    pub value: u64,
}

/// Notifications between a device and its other side, since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Notifications received.
    pub interrupts: u64,
    /// Notifications sent, of frames and of memory for them.
    pub kicks: u64,
}

/// Result of a transmit call, besides the frames taken out of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transmitted {
    /// True if it rang the doorbell.
    pub doorbell: bool,
    /// True if it takes no more until completions have been reaped.
    pub stopped: bool,
}

/// Frames that have left a device.
#[derive(Debug)]
pub struct Completions {
    /// Frames that were sent.
    pub sent: Batch,
    /// Frames that failed, with the reason.
    pub failed: Vec<(Frame, &'static str)>,
}

impl Completions {
    /// Makes room for `capacity` sent frames.
    pub fn new(capacity: usize) -> Self {
        Self { sent: Batch::new(capacity), failed: Vec::new() }
    }

    /// Returns the number of frames inside.
    pub fn len(&self) -> usize {
        self.sent.len() + self.failed.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Notifications of a device: completions and arrivals. A device that has none takes the defaults, and is
/// polled from time to time.
pub trait Notify {
    /// Asks for a notification at the next completion and the next arrival. Returns false if one is due
    /// already: the caller looks again. The device notifies of everything after this call, until
    /// [`Notify::disarm`].
    fn arm(&mut self) -> bool {
        true
    }

    /// Masks notifications while the caller polls.
    fn disarm(&mut self) {}

    /// The descriptor that becomes readable or writable with a notification. It stays the same while the
    /// device is open.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Returns the notifications since the device was opened, if it counts them.
    #[doc(hidden)]
    fn signals(&mut self) -> Option<Signals> {
        None
    }
}

/// The part of a device that both sides share.
pub trait Device: Notify + Send {
    /// Returns the name for messages, as in the specification: `wire`, `pcap:out.pcap`.
    fn name(&self) -> String;

    /// Returns how the device works on this machine, once it is attached, where that may differ: `zero-copy`,
    /// `copy`.
    fn mode(&self) -> Option<&'static str> {
        None
    }

    /// Returns the cause that [`Device::mode`] is no better one, once it is attached. By default `None`.
    #[doc(hidden)]
    fn mode_reason(&self) -> Option<ModeReason> {
        None
    }

    /// Shows its own figures to `see`: the name, a word of the JSON output (`pairs_in_use`); the queue pair
    /// that it is of, `None` if it is of the device; the value. By default it has none. A device with some
    /// may have another [`Device::mode`] whenever its other side changes.
    fn facts(&self, _see: &mut dyn FnMut(&'static str, Option<u32>, u64)) {}

    /// Takes the line down for its other side, or has it up again: frames fail as `link-down` meanwhile.
    /// Returns false if the device cannot, as by default.
    fn set_line(&mut self, _is_up: bool) -> bool {
        false
    }

    /// Takes the memory that the device's frames lie in. Called once, before any frame is moved.
    ///
    /// # Errors
    /// The device cannot use this memory.
    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError>;

    /// Looks whether the line is up, now: [`DeviceError::Down`] or [`DeviceError::Gone`] if it is not, `None` if the device
    /// cannot tell, as by default. A poller asks now and then, never per packet: a system call is all right.
    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        None
    }

    /// Shows each frame that the device holds to `see`, for audits.
    fn visit(&self, see: &mut dyn FnMut(&Frame));

    /// Ends the device: it completes files and lets go of memory. Frames that it was still sending come back
    /// by [`TxDevice::reap`], as failed; memory posted for arrivals by [`RxDevice::reclaim`].
    ///
    /// # Errors
    /// [`DeviceError`] for a file or a socket that could not be completed.
    fn close(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

#[doc = include_str!("device/tx_device.md")]
pub trait TxDevice: Device {
    /// Returns what the device can do.
    fn info(&self) -> TxInfo;

    /// Takes frames from the front of `batch`, in order, and leaves what it has no room for: it drops none.
    /// Rings at most one doorbell, and rings it if it took any unless `more` says that another call follows
    /// at once; it rings all the same if it stops. A caller that said `more` and has no more calls
    /// [`TxDevice::flush`].
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted;

    /// Rings the doorbell that a call with `more` has left out. Returns true if there was one. By default there is none:
    /// the device rings in each call.
    fn flush(&mut self) -> bool {
        false
    }

    /// Gives back up to `budget` frames that have left, as far as `into` has room. With `urgent` a thread
    /// waits for them: the device gives them back now, whatever its [`CompletionMode`].
    ///
    /// # Errors
    /// The device completed what it does not hold. What it did hold is still good.
    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError>;

    /// Returns the number of frames that it holds.
    fn outstanding(&self) -> usize;

    /// Returns in how many nanoseconds the next completion is due, when the device knows: `u64::MAX` for none
    /// before a notification, for which alone the poller then waits.
    fn next_completion_ns(&self) -> Option<u64> {
        None
    }

    /// Sets how long frames may wait for another side that is not there, or has stood still, before they
    /// fail; `None` for as long as it takes, until it is called. A queue that may drop calls it: see
    /// [`PATIENCE`]. By default frames wait or fail by the device's own rule.
    fn set_patience(&mut self, _patience: Option<Duration>) {}
}

/// The flows of a class that a row of buckets tells apart, in a device which thins what comes.
pub const THIN_FLOWS: usize = 1024;
/// The rows of a class, by bits of the hash of their own: two flows that share a bucket of one row seldom
/// share one of the other.
pub const THIN_ROWS: usize = 2;
/// The buckets of all classes and rows: see [`thin_buckets`].
pub const THIN_BUCKETS: usize = 8 * THIN_ROWS * THIN_FLOWS;
/// The part that passes of the packets of each bucket, of `u32::MAX`.
pub type Passes = [u32; THIN_BUCKETS];

/// Returns the seed of the hash, of 56 bits: another one in each process, or a sender could choose flows that
/// share another's bucket.
pub fn thin_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().build_hasher().finish() >> 8)
}

/// Returns a packet's bucket in each row of its class, the upper three bits of its DSCP. So an urgent flow
/// shares none with others.
pub fn thin_buckets(bytes: &[u8]) -> [usize; THIN_ROWS] {
    let class = usize::from(traffic_class(bytes).unwrap_or(0) >> 5);
    let hash = flow_hash_seeded(bytes, thin_seed());
    std::array::from_fn(|row| {
        let flow = hash.rotate_left((row as u32 + 1) * THIN_FLOWS.ilog2()) as usize % THIN_FLOWS;
        (class * THIN_ROWS + row) * THIN_FLOWS + flow
    })
}

/// The receive side of a device: one receive queue.
pub trait RxDevice: Device {
    /// Receives up to `budget` frames to the back of `to`, with memory from `cache`. Returns the number of
    /// frames. A budget of 0 asks the device only to post memory for arrivals, where it does so.
    ///
    /// # Errors
    /// The device failed. An empty pool is no error: frames then wait, or the device drops and counts them.
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError>;

    /// Returns true if nothing will ever be received any more: the other end closed, the file is read. By default false.
    fn ended(&self) -> bool {
        false
    }

    /// Moves memory that was posted for arrivals to the back of `to`, as far as there is room, once the
    /// device is closed. Returns the number of frames moved.
    fn reclaim(&mut self, _to: &mut Batch) -> usize {
        0
    }

    /// Shows how many frames were dropped before they could be received, by reason, since the device was
    /// opened: those that the kernel had no room for in a ring, above all.
    fn drops(&mut self, _see: &mut dyn FnMut(&'static str, u64)) {}

    /// Shows the packets that came by each receive queue of its interface, by the queue's number, since the device was opened. By default
    /// it shows none: it has one queue without a number.
    fn queue_packets(&mut self, _see: &mut dyn FnMut(u32, u64)) {}

    /// Returns within how many nanoseconds [`RxDevice::receive`] must be called again though nothing
    /// notifies: when the next frame arrives, if the device knows; or where only a look shows that nothing
    /// can arrive any more.
    fn next_arrival_ns(&self) -> Option<u64> {
        None
    }

    /// Has the device drop by chance, before they are received, packets that a discipline behind it would
    /// drop. Of a flow the larger one of its buckets' parts passes. `None` ends it, and so does a second
    /// without a call. Returns true if the device can, for some protocols at least; by default false.
    fn thin(&mut self, _passes: Option<&Passes>) -> bool {
        false
    }

    /// Returns true if the other side waits while nothing is received, and nothing is dropped: a driver of a
    /// virtual machine, a capture. By default false: a ring fills, and its end drops.
    fn holds_back(&self) -> bool {
        false
    }
}

/// A device that sends and receives as one object: its sides share state, and one thread at a time has both.
pub trait Duplex: TxDevice + RxDevice {}

impl<D: TxDevice + RxDevice + ?Sized> Duplex for D {}

/// Closes a device that receives, and gives the memory posted for arrivals back to `cache`.
///
/// # Errors
/// See [`Device::close`].
pub fn close_receiver(device: &mut (impl RxDevice + ?Sized), cache: &mut Cache) -> Result<(), DeviceError> {
    const BUDGET: usize = 64;
    let closed = device.close();
    let mut posted = Batch::new(BUDGET);
    while device.reclaim(&mut posted) > 0 {
        cache.give_all(&mut posted);
    }
    closed
}
