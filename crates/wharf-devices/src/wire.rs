//! `wire`: two ends in one process, joined by a line that loses nothing.
//!
//! Spec: `wire[:rate=10gbit,delay=1ms,ring=1024,overhead=24]`.
//!
//! A frame leaves when its transmission is over (`rate`) and the far end takes it; that is its completion. A
//! full ring stops the sender; no frame is ever dropped. The far end copies a frame's bytes into memory of
//! its own cache, and takes none while its pool is empty. Super-packets cross whole, with their requests, as
//! over a veth: the far end builds a chain if one of its frames is too small.
//!
//! - `rate` (none by default): bits per second of each direction, exact in the long run.
//! - `overhead` (24 bytes by default): bytes of line time that every frame takes besides its own: preamble
//!   and start delimiter 8, check sequence 4, gap 12. So 10gbit are the 14.88 Mpps of a 10 Gbit/s Ethernet
//!   for 60-byte frames; `overhead=0` counts the frames' bytes alone.
//! - `delay` (none by default): time from a frame's completion until it can be received, at most 60 s. Frames
//!   on their way lie in the receiver's memory: a pool smaller than rate times delay bounds the throughput.
//! - `ring` (1024 by default): frames that an end may have given away and not yet got back.
//!
//! Without a rate or a delay no clock is read. An end that is closed or dropped hangs up both directions: the
//! other end's frames come back as failed, `link-down`, and it still receives the frames that had left.
//! Reasons of failure: `link-down`, `closed` (this end closed before the frame left), `too-long` (the
//! receiver's whole pool would not hold it), `foreign-pool`, `not-attached`.

mod link;
#[doc(hidden)]
pub mod rate;
mod receiving;
mod sending;
mod spec;

use crate::host::ExactClock;
use crate::iface::pool_fault;
use link::Link;
use rate::Line;
use receiving::Receiving;
use sending::Sending;
pub(crate) use spec::KIND;
pub use spec::open_by;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_mem::lane::lane;
use wharf_mem::{Batch, Frame, Region};

/// Preamble and start delimiter 8, check sequence 4, gap 12: IEEE 802.3, bytes.
pub const ETHERNET_OVERHEAD_BYTES: u32 = 24;
/// The longest delay.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
const RING_FRAMES: u32 = 1024;
const RING_FRAMES_MAX: u32 = 1 << 16;

/// Settings of a wire.
#[derive(Debug, Clone)]
pub struct WireSpec {
    rate_bits_per_second: u64,
    overhead_bytes: u32,
    delay: Duration,
    ring_frames: u32,
    index_start: u32,
    clock: Arc<dyn Clock>,
}

impl Default for WireSpec {
    fn default() -> Self {
        Self {
            rate_bits_per_second: 0,
            overhead_bytes: ETHERNET_OVERHEAD_BYTES,
            delay: Duration::ZERO,
            ring_frames: RING_FRAMES,
            index_start: 0,
            clock: Arc::new(ExactClock),
        }
    }
}

impl WireSpec {
    /// Bits per second of each direction, at most 10^18; 0, the default, for no bound.
    #[must_use]
    pub fn rate(mut self, bits_per_second: u64) -> Self {
        self.rate_bits_per_second = bits_per_second.min(rate::RATE_MAX);
        self
    }

    /// Bytes that every frame takes on the line besides its own, at most 65536; Ethernet's 24 by default.
    #[must_use]
    pub fn overhead(mut self, bytes: u32) -> Self {
        self.overhead_bytes = bytes.min(rate::OVERHEAD_BYTES_MAX);
        self
    }

    /// Time after its completion at which a frame can be received, at most [`DELAY_MAX`]; 0 by default.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay.min(DELAY_MAX);
        self
    }

    /// Frames that an end can hold; 1024 by default.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] for anything but a power of two from 2 to 65536.
    pub fn ring(mut self, frames: u32) -> Result<Self, DeviceError> {
        if !frames.is_power_of_two() || !(2..=RING_FRAMES_MAX).contains(&frames) {
            let what = format!("ring={frames} cannot be: a power of two from 2 to {RING_FRAMES_MAX}");
            return Err(wharf_core::options::OptionError { subject: "wire".into(), what }.into());
        }
        self.ring_frames = frames;
        Ok(self)
    }

    /// Sets the start of the rings' indices: tests start near 2^32 to see them wrap.
    #[must_use]
    pub fn index_start(mut self, start: u32) -> Self {
        self.index_start = start;
        self
    }

    /// Sets the clock for rate and delay, which should be exact; the host's by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    fn delay_ns(&self) -> u64 {
        u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Both sides of one direction.
    fn direction(&self) -> (Sending, Receiving) {
        let (to_far, from_near) = lane(self.ring_frames, self.index_start);
        let (back, completions) = lane(self.ring_frames, self.index_start);
        let link = Arc::new(Link::default());
        let rate = self.rate_bits_per_second;
        let line = (rate > 0).then(|| Line::new(rate, self.overhead_bytes));
        let receiving = Receiving::new(link.clone(), from_near, back, self.delay_ns(), self.clock.clone());
        (Sending::new(link, to_far, completions, line, self.clock.clone()), receiving)
    }
}

/// Both ends of a wire.
pub fn wire(spec: &WireSpec) -> (Wire, Wire) {
    let ((send, far_receive), (far_send, receive)) = (spec.direction(), spec.direction());
    let ring_frames = spec.ring_frames;
    let near = Wire { name: "wire", ring_frames, sending: send, receiving: receive };
    (near, Wire { name: "wire's far end", ring_frames, sending: far_send, receiving: far_receive })
}

/// One end of a wire.
pub struct Wire {
    name: &'static str,
    ring_frames: u32,
    sending: Sending,
    receiving: Receiving,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (held, ring) = (self.sending.outstanding(), self.ring_frames);
        write!(f, "Wire({}, {held} of {ring} frames out)", self.name)
    }
}

impl Notify for Wire {}

impl Device for Wire {
    fn name(&self) -> String {
        self.name.into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        if self.sending.attach(region) {
            return Ok(());
        }
        let what = "attached already: an end sends frames of one pool".into();
        Err(DeviceError::Unsupported { device: self.name(), what })
    }

    /// Frames on their way between the ends are in no table, and are not shown.
    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.sending.close();
        self.receiving.close();
        Ok(())
    }
}

impl TxDevice for Wire {
    fn info(&self) -> TxInfo {
        TxInfo::of_any_frame(self.ring_frames as usize, CompletionMode::Real)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.sending.transmit(batch, more)
    }

    #[inline]
    fn flush(&mut self) -> bool {
        self.sending.flush()
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.reap(budget, into);
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.sending.outstanding()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        self.sending.next_leave_ns()
    }
}

impl RxDevice for Wire {
    fn holds_back(&self) -> bool {
        true
    }

    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.sending.release();
        self.receiving.receive(cache, to, budget).map_err(|error| pool_fault(self.name, error))
    }

    /// Returns true once a call to receive has found that nothing is left and nothing can come.
    fn ended(&self) -> bool {
        self.receiving.has_ended()
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        self.receiving.next_landing_ns()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.sending.close();
        self.receiving.close();
    }
}
