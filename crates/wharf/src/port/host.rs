//! `Host`: a port's clock, its ways to wait, and what runs its pollers: threads, or a test that counts time
//! by itself. Pollers wait in epoll(7) whichever clock a port has.

use super::world::{Seated, World};
use std::io;
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::host::{Clock, Park, PollerWait};
use wharf_core::poller::{Mode, Poller, PollerCounters, Settings};
use wharf_core::pool::{PagePool, PoolBuilder, PoolError};
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;
use wharf_devices::host::{HostClock, HostPark, HostWait, PollerBuilder, PollerThread};
use wharf_devices::spec::{DeviceSpec, Opened, Opening};
use wharf_devices::wire;

/// Frames of a pool, for each queue.
const POOL_FRAMES: u32 = 4096;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) enum Host {
    /// This machine.
    #[default]
    Machine,
    /// The same, by a clock and a way to wait of the user's own.
    Own(Arc<dyn Clock>, Arc<dyn Park>),
    /// Virtual time.
    World(Arc<World>),
}

/// What polls a port. It ends with this value.
#[derive(Debug)]
pub(super) enum Serving {
    Thread(PollerThread),
    Seat(Seated),
}

/// The queues that a poller serves for one port.
#[derive(Debug, Clone, Default)]
pub(super) struct Served {
    pub(super) queue: Option<TxQueue>,
    pub(super) receiver: Option<RxQueue>,
}

impl Host {
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Machine => Arc::new(HostClock),
            Self::Own(clock, _) => clock.clone(),
            Self::World(world) => world.clone(),
        }
    }

    pub(super) fn park(&self) -> Arc<dyn Park> {
        match self {
            Self::Machine => Arc::new(HostPark),
            Self::Own(_, park) => park.clone(),
            Self::World(world) => world.clone(),
        }
    }

    /// Returns the settings of its pollers. In virtual time, one that polls on for some microseconds would
    /// wait for ever: time does not pass meanwhile.
    pub(super) fn settings(&self, settings: Settings) -> Settings {
        match self {
            Self::Machine | Self::Own(..) => settings,
            Self::World(_) => Settings { mode: Mode::Sleeping, ..settings },
        }
    }

    /// Opens the device that `spec` describes.
    pub(super) fn open(&self, spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
        match (self, spec.kind().name) {
            (Self::Machine | Self::Own(..), _) | (_, "null") => spec.open(opening),
            (Self::World(world), "wire") => wire::open_by(spec, world.clone()),
            _ => Err(spec.fault("virtual time has the devices `wire` and `null` alone")),
        }
    }

    /// Makes a pool for devices, of frames as large as they ask for.
    pub(super) fn pool(&self, opened: &[Opened]) -> Result<PagePool, PoolError> {
        let frames = POOL_FRAMES.saturating_mul(opened.len() as u32);
        let pool = PagePool::builder().frames(frames).clock(self.clock());
        let bytes = opened.iter().filter_map(|opened| opened.frame_bytes).max();
        bytes.into_iter().fold(pool, PoolBuilder::frame_bytes).build()
    }

    /// Returns a way to wait, for a receiver that polls in its own calls.
    pub(super) fn wait(&self) -> io::Result<Box<dyn PollerWait>> {
        match self {
            Self::Machine | Self::Own(..) => Ok(Box::new(HostWait::new()?)),
            Self::World(world) => Ok(world.wait()),
        }
    }

    /// Starts a poller of `served`, on processor `cpu` if one is named.
    pub(super) fn serve(
        &self, settings: Settings, cpu: Option<usize>, served: &[Served],
    ) -> io::Result<Serving> {
        let queues = || served.iter().filter_map(|one| one.queue.as_ref());
        let receivers = || served.iter().filter_map(|one| one.receiver.as_ref());
        match self {
            Self::Machine | Self::Own(..) => {
                let poller = PollerThread::builder().settings(settings);
                let poller = cpu.into_iter().fold(poller, PollerBuilder::pin);
                let poller = queues().fold(poller, PollerBuilder::queue);
                Ok(Serving::Thread(receivers().fold(poller, PollerBuilder::receiver).start()?))
            }
            Self::World(world) => Ok(Serving::Seat(world.seat(settings, |poller: &mut Poller| {
                queues().for_each(|queue| poller.add(queue));
                receivers().for_each(|receiver| poller.add_receiver(receiver));
            }))),
        }
    }
}

impl Serving {
    /// True if a handler that it runs calls.
    pub(super) fn runs_caller(&self) -> bool {
        match self {
            Self::Thread(thread) => thread.is_current(),
            Self::Seat(seated) => seated.runs(),
        }
    }

    /// Ends it, and does not wait for the thread.
    pub(super) fn detach(self) {
        if let Self::Thread(thread) = self {
            thread.detach();
        }
    }

    /// Returns the counters of a thread.
    pub(super) fn counters(&self) -> Option<&Arc<PollerCounters>> {
        match self {
            Self::Thread(thread) => Some(thread.counters()),
            Self::Seat(_) => None,
        }
    }
}
