//! `QueueBuilder`: builds a `TxQueue`.

#[cfg(feature = "model")]
#[path = "../../model/builder.rs"]
mod model;

use super::{QueueError, Setup, Shared, TxQueue};
use crate::bql::{Bounds, Bql};
use crate::counters::QueueCounters;
use crate::device::{AnyDevice, Description, DeviceError, LimitUnit, PATIENCE, TxDevice, TxSide};
use crate::gso;
use crate::host::{Clock, Park, Unfailing};
use crate::pool::PagePool;
use crate::qdisc::{Fifo, FifoLimit, Qdisc, WhenFull};
use crate::tx::engine::{Batching, TxEngine};
use crate::tx::owner::Policy;
use crate::tx::small_queue::{SMALL_QUEUE_BOUNDS, SMALL_QUEUE_BYTES};
use std::sync::Arc;
use std::time::Duration;

/// Packets in the default FIFO, the kernel's `txqueuelen`.
const FIFO_PACKETS: usize = 1000;
/// Frames in a lane.
const LANE_FRAMES: u32 = 256;
/// The byte limit's hold time, the kernel's (`hold_time`).
const HOLD: Duration = Duration::from_secs(1);

/// The settings of a new queue. See [`TxQueue::builder`].
pub struct QueueBuilder {
    device: TxSide,
    qdisc: Box<dyn Qdisc>,
    batching: Batching,
    hold: Duration,
    byte_limits: Bounds,
    /// `None` for the discipline's default.
    small_queue_bytes: Option<Option<u32>>,
    setup: Setup,
}

impl std::fmt::Debug for QueueBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueBuilder({}, {})", self.device.name(), self.qdisc.name())
    }
}

impl TxQueue {
    /// Builds a queue in front of `device`, for frames of `pool`, with this clock and way to wait. Work that the
    /// device cannot do for a frame (segmentation, checksum, gathering buffers) is done before it: see
    /// [`crate::gso`].
    #[doc(hidden)]
    pub fn builder(
        pool: &PagePool, device: Box<dyn TxDevice>, clock: Arc<dyn Clock>, park: Arc<dyn Park>,
    ) -> QueueBuilder {
        Self::builder_over(pool, TxSide::Tx(device), clock, park)
    }

    /// Works like [`TxQueue::builder`], for a device as it was opened. Frames that it receives come by
    /// [`RxQueue::of`](crate::rx::RxQueue::of).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it only receives.
    #[doc(hidden)]
    pub fn builder_of(
        pool: &PagePool, device: AnyDevice, clock: Arc<dyn Clock>, park: Arc<dyn Park>,
    ) -> Result<QueueBuilder, DeviceError> {
        Ok(Self::builder_over(pool, device.try_into()?, clock, park))
    }

    fn builder_over(
        pool: &PagePool, device: TxSide, clock: Arc<dyn Clock>, park: Arc<dyn Park>,
    ) -> QueueBuilder {
        let setup = Setup {
            pool: pool.clone(),
            clock: Arc::new(Unfailing::new(clock)),
            park,
            policy: Policy::default(),
            lane_frames: LANE_FRAMES,
            small_queue_bytes: None,
            index_start: 0,
            run_observer: None,
            device: Description::default(),
            receives: false,
            uses_bands: false,
            limit_unit: LimitUnit::Bytes,
        };
        QueueBuilder {
            device,
            qdisc: Box::new(Fifo::new(FifoLimit::Packets(FIFO_PACKETS))),
            batching: Batching::On,
            hold: HOLD,
            byte_limits: Bounds::LEARN,
            small_queue_bytes: None,
            setup,
        }
    }
}

impl QueueBuilder {
    /// Sets the queueing discipline; a FIFO of 1000 packets by default.
    #[must_use]
    pub fn qdisc(mut self, qdisc: Box<dyn Qdisc>) -> Self {
        self.qdisc = qdisc;
        self
    }

    /// Sets the bounds of one ownership; 128 packets and one jiffy by default.
    #[doc(hidden)]
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.setup.policy = policy;
        self
    }

    /// Sets the batching switch; on by default.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }

    /// Sets the byte limit's hold time; one second by default.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Bounds the byte limit; unbounded by default. [`Bounds::OFF`] makes a limit that never binds: only the device's
    /// ring then bounds the frames in the device.
    #[must_use]
    pub fn byte_limits(mut self, bounds: Bounds) -> Self {
        self.byte_limits = bounds;
        self
    }

    /// Sets the frames in a lane: a power of two, at most 65536; 256 by default.
    #[must_use]
    pub fn lane_frames(mut self, frames: u32) -> Self {
        self.setup.lane_frames = frames;
        self
    }

    /// Sets the most bytes that one sender may have inside before it waits (TCP small queues, for any sender), from
    /// 4096 to 2^30; `None` for no limit. Below it, the limit follows the sender's rate: about one millisecond. The
    /// default is 1 MiB, but no limit with a discipline that drops the oldest packets: a sender would wait for
    /// packets that should make way for its own.
    #[must_use]
    pub fn small_queues(mut self, max_bytes: Option<u32>) -> Self {
        self.small_queue_bytes = Some(max_bytes);
        self
    }

    fn check(&self) -> Result<(), QueueError> {
        let fault = |setting, value, why| Err(QueueError::Setting { setting, value, why });
        if !self.setup.lane_frames.is_power_of_two() || self.setup.lane_frames > 1 << 16 {
            return fault("lane_packets", self.setup.lane_frames.into(), "a power of two, at most 65536");
        }
        let small_queue_bytes = self.small_queue_bytes.flatten();
        if let Some(bytes) = small_queue_bytes.filter(|bytes| !SMALL_QUEUE_BOUNDS.contains(bytes)) {
            return fault("small_queues", bytes.into(), "4096 bytes to 1 GiB");
        }
        if self.setup.policy.quota_packets == 0 {
            return fault("quota_packets", 0, "at least 1");
        }
        Ok(())
    }

    /// Attaches the device to the pool's memory and makes the engine.
    pub(crate) fn into_engine(self) -> Result<EngineParts, QueueError> {
        self.check()?;
        let Self { mut device, qdisc, batching, hold, byte_limits, small_queue_bytes, mut setup } = self;
        setup.small_queue_bytes = small_queue_bytes.unwrap_or_else(|| default_small_queues(&*qdisc));
        let (pool, clock, start) = (&setup.pool, setup.clock.clone(), setup.index_start);
        device.attach(pool.region().clone())?;
        device.set_patience((qdisc.when_full() != WhenFull::Wait).then_some(PATIENCE));
        setup.device = Description::of(&*device);
        let mut device = gso::with_segmenter(device, pool);
        (setup.receives, setup.uses_bands) = (device.rx().is_some(), qdisc.uses_bands());
        setup.limit_unit = device.info().limit_unit;
        let counters = Arc::new(QueueCounters::default());
        let mut engine = TxEngine::new(pool.region(), device, qdisc, hold, clock, counters.clone());
        engine.set_batching(batching);
        if start != 0 && engine.bql().is_some() {
            engine.set_bql(Some(Bql::start_at(hold, start)));
        }
        engine.set_byte_limits(byte_limits);
        Ok((engine, counters, setup))
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// [`QueueError::Setting`], and [`QueueError::Device`] when the device cannot use the pool's memory.
    pub fn build(self) -> Result<TxQueue, QueueError> {
        wharf_mem::prepare();
        let (engine, counters, setup) = self.into_engine()?;
        Ok(TxQueue { shared: Shared::new(setup, engine, counters) })
    }
}

fn default_small_queues(qdisc: &dyn Qdisc) -> Option<u32> {
    (qdisc.when_full() == WhenFull::Wait).then_some(SMALL_QUEUE_BYTES)
}

/// The parts of a new queue.
pub(crate) type EngineParts = (TxEngine, Arc<QueueCounters>, Setup);
