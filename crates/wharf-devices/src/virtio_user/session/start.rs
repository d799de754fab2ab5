//! The start of virtqueues: their memory, which a back end gets, and the messages about it.

use super::super::VirtioUserOptions;
use super::super::buffers::{Buffers, POOL_AT};
use super::{QUEUES, RECEIVE, Session, TRANSMIT, io_fault};
use crate::virtio::split::SplitDevice;
use crate::virtio::{DriverRing, Layout, Options, Place, RingError, feature};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserInflight;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use wharf_core::device::DeviceError;
use wharf_mem::Region;
use wharf_sys::event::signal_shared;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::Area;

/// Address of the rings for the back end: see [`POOL_AT`].
const RINGS_AT: u64 = 1 << 28;

/// What is shared with a back end, and the receive and the transmit queue of each pair.
pub(in super::super) type Started<R> = (Arc<Shared>, Vec<[Queue<R>; QUEUES]>);

/// The memory that a back end has, and the events that notify it of buffers. The next one goes on with them,
/// if the table of what is in flight was kept.
#[derive(Debug)]
pub(in super::super) struct Shared {
    pub(in super::super) buffers: Buffers,
    rings: Arc<Area>,
    kicks: Vec<Arc<EventFd>>,
    /// The tables of what is in flight: their bytes, where they begin in the file, and that.
    inflight: Option<(u64, u64, File)>,
}

impl Shared {
    /// True if a back end can go on where the one before it ended.
    pub(in super::super) fn is_kept(&self) -> bool {
        self.inflight.is_some()
    }
}

/// A virtqueue that was set up: the ring, and the event that notifies the back end.
#[derive(Debug)]
pub struct Queue<R> {
    pub(in super::super) ring: R,
    kick: Arc<EventFd>,
    /// Number of notifications sent.
    pub(in super::super) kicks: u64,
}

impl<R> Queue<R> {
    /// Sends the first kick: rings start with it.
    pub fn start(ring: R, kick: Arc<EventFd>) -> Self {
        let mut queue = Self { ring, kick, kicks: 0 };
        queue.tell();
        queue
    }

    /// Notifies the back end.
    pub(in super::super) fn tell(&mut self) {
        self.kicks += 1;
        signal_shared(self.kick.as_raw_fd());
    }
}

impl Session {
    /// Starts the back end with new memory of frames, and new rings.
    pub(in super::super) fn start<R: DriverRing>(
        &self, region: &Arc<Region>, options: &VirtioUserOptions,
    ) -> Result<Started<R>, DeviceError> {
        let size = options.size;
        let buffers = Buffers::new(region, options.copy)
            .map_err(io_fault(&self.name, "no memory for its copies of frames"))?;
        let layout = self.layout();
        let (each_bytes, pairs) = (Place::len_bytes(layout, size), usize::from(self.pairs));
        let mapping = Mapping::shared_small_pages(each_bytes * QUEUES * pairs)
            .map_err(io_fault(&self.name, "no memory for its rings"))?;
        let (rings, inflight) = (Arc::new(Area::new(mapping)), self.inflight(size)?);
        let ring = |index: usize| {
            let place = Place::within(&rings, index * each_bytes, layout, size.into())?;
            R::new(place, Options::of(self.features))
        };
        let made =
            (0..pairs).map(|pair| Ok([ring(QUEUES * pair + RECEIVE)?, ring(QUEUES * pair + TRANSMIT)?]));
        let made = made.collect::<Result<Vec<_>, RingError>>();
        let made = made.map_err(|error| self.unsupported(error.to_string()))?;
        let kicks = (0..QUEUES * pairs).map(|_| EventFd::new(EFD_NONBLOCK).map(Arc::new));
        let kicks = kicks.collect::<io::Result<_>>();
        let kicks: Vec<_> = kicks.map_err(io_fault(&self.name, "no event counter"))?;
        let shared = Arc::new(Shared { buffers, rings, kicks, inflight });
        // A packed ring begins on a round whose wrap counter is 1.
        let base = if layout == Layout::Packed { 0x8000 } else { 0 };
        self.share(&shared, size, &vec![base; QUEUES * pairs])?;
        let kicks = shared.kicks.chunks_exact(QUEUES);
        let queues = made.into_iter().zip(kicks).map(|([receive, transmit], kicks)| {
            [Queue::start(receive, kicks[RECEIVE].clone()), Queue::start(transmit, kicks[TRANSMIT].clone())]
        });
        let queues = queues.collect();
        Ok((shared, queues))
    }

    /// Asks for the tables of what is in flight in virtqueues of `size`, if the back end records that.
    fn inflight(&self, size: u16) -> Result<Option<(u64, u64, File)>, DeviceError> {
        if !self.records {
            return Ok(None);
        }
        let _patience = self.patience(self.answers_within)?;
        let asked = VhostUserInflight::new(0, 0, QUEUES as u16 * self.pairs, size);
        let got = self.frontend.clone().get_inflight_fd(&asked);
        let (got, file) = got.map_err(self.refused("a table of what is in flight"))?;
        Ok(Some((got.mmap_size, got.mmap_offset, file)))
    }

    /// Returns the positions at which a back end goes on: a split ring shows its own now; those of a packed
    /// one were in `bases`, and its table has later ones.
    pub(in super::super) fn positions(&self, shared: &Shared, size: u16, bases: &[u32]) -> Vec<u32> {
        let (layout, each_bytes) = (self.layout(), Place::len_bytes(self.layout(), size));
        let shown = |index: usize| {
            let place = Place::within(&shared.rings, index * each_bytes, layout, size.into()).ok();
            place.filter(|_| layout == Layout::Split).map(|place| SplitDevice::used_index(&place).into())
        };
        bases.iter().enumerate().map(|(index, &base)| shown(index).unwrap_or(base)).collect()
    }

    /// Gives the back end the memory of frames and that of the rings, and starts it at the positions `bases`.
    pub(in super::super) fn share(
        &self, shared: &Shared, size: u16, bases: &[u32],
    ) -> Result<(), DeviceError> {
        let (layout, pool) = (self.layout(), shared.buffers.mapping());
        let memory = [(POOL_AT, pool), (RINGS_AT, shared.rings.mapping().unwrap_or(pool))];
        let memory = memory.map(|(address, mapping)| {
            Ok(VhostUserMemoryRegionInfo {
                guest_phys_addr: address,
                memory_size: mapping.len_bytes() as u64,
                userspace_addr: address,
                mmap_offset: 0,
                mmap_handle: mapping.fd()?.as_raw_fd(),
            })
        });
        let memory = memory.into_iter().collect::<io::Result<Vec<_>>>();
        let memory = memory.map_err(io_fault(&self.name, "cannot share its memory"))?;
        let _patience = self.patience(self.answers_within)?;
        self.frontend.set_mem_table(&memory).map_err(self.refused("our memory"))?;
        if let Some((len_bytes, at, file)) = &shared.inflight {
            let tables = VhostUserInflight::new(*len_bytes, *at, bases.len() as u16, size);
            let set = self.frontend.clone().set_inflight_fd(&tables, file.as_raw_fd());
            set.map_err(self.refused("the table of what is in flight"))?;
        }
        // A back end may count the virtqueues announced so far, and only once, when the first pair is
        // complete: Open vSwitch.
        (0..bases.len())
            .try_for_each(|index| self.frontend.set_vring_call(index, &self.events.call))
            .map_err(self.refused("what it is to signal"))?;
        let each_bytes = Place::len_bytes(layout, size);
        let mut all = bases.iter().zip(&shared.kicks).enumerate();
        let started = all.try_for_each(|(index, (&base, kick))| {
            self.start_queue(index, index * each_bytes, size, base, kick)
        });
        started.map_err(self.refused("a virtqueue"))
    }

    fn start_queue(
        &self, index: usize, at: usize, size: u16, base: u32, kick: &EventFd,
    ) -> vhost::Result<()> {
        let layout = self.layout();
        let [descriptors, driver, device] = Place::offsets(layout, size, at).map(|at| RINGS_AT + at as u64);
        let addresses = VringConfigData {
            queue_max_size: size,
            queue_size: size,
            flags: 0,
            desc_table_addr: descriptors,
            used_ring_addr: device,
            avail_ring_addr: driver,
            log_addr: None,
        };
        self.frontend.set_vring_num(index, size)?;
        // The base of a packed ring has 32 bits, of which the crate takes 16: the wrap counter and the
        // position.
        self.frontend.set_vring_base(index, base as u16)?;
        self.frontend.set_vring_addr(index, &addresses)?;
        self.frontend.set_vring_kick(index, kick)?;
        if self.features & feature::VHOST_PROTOCOL != 0 {
            self.frontend.clone().set_vring_enable(index, true)?;
        }
        Ok(())
    }
}
