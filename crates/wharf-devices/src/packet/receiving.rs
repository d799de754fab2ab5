//! `PacketReceiver`: the receive side of a packet socket.

mod pieces;
mod stuck;
#[doc(hidden)]
pub mod work;

use super::Opened;
use crate::host::ExactClock;
use crate::iface::{Drops, KernelDrops, LookTimer, Step};
use crate::link::Link;
use crate::thinning::{PacketBegin, Thinning};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use stuck::StuckRing;
use wharf_core::device::{Device, DeviceError, Notify, Passes, RxDevice};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_core::sg_writer::SgWriter;
use wharf_mem::{Batch, Frame, Meta, Region};
pub use wharf_sys::packet::ReceiveVersion;
use wharf_sys::packet::{BlockRing, PacketSocket, ReceiveShape};
use wharf_sys::xdp::assembler::SKB_LOAD_BYTES;
use wharf_sys::xdp::set_filter;
use work::{Work, is_plain};

/// Bytes of a block: room for the longest super-packet, and for a thousand short frames.
const BLOCK_BYTES: u32 = 128 << 10;
/// Time after which the kernel delivers a block that is not full: the shortest that it knows. Linux before 6.18
/// counts it in ticks, so that a frame waits for up to 8 ms at 250 Hz, if not by [`ReceiveVersion::V2`].
const RETIRE_MS: u32 = 1;
/// Time that frames may take out of the ring once the interface has gone.
const LAST_FRAMES_NS: u64 = 10_000_000;

/// Treatment of super-packets, which senders on this host send whole, and network adapters join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SuperPackets {
    /// They are segmented: every frame is one that a wire could carry.
    #[default]
    Cut,
    /// They arrive whole, as chains if they are longer than one frame. Their row of the side table
    /// ([`Region::meta`]) says how to segment them and that the checksum is still to be filled in.
    /// Super-packets in UDP tunnels are segmented all the same.
    Keep,
}

/// Settings of a [`PacketReceiver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Treatment of super-packets: they are segmented by default.
    pub super_packets: SuperPackets,
    /// Bytes of the ring, from 256 KiB to 1 GiB: 32 MiB by default. By `TPACKET_V3` that is some 200 000 short frames, or
    /// 256 blocks of 128 KiB. The kernel delivers at least one block per millisecond in which a frame arrives. So
    /// even at low rates nothing is lost if the receiver does not poll for 256 ms.
    pub buffer_bytes: u64,
    /// True if the interface takes frames for other stations, too: the default, as in other captures.
    pub promiscuous: bool,
    /// The ring's version. By `TPACKET_V2` the kernel delivers each frame at once, but a ring of 32 MiB has room
    /// for 256 frames, of any length. One frame that the kernel cannot describe (a super-packet by UFO, which a
    /// virtual machine may send) stops such a ring. It is made anew within 0.2 s; the frames of that time count as dropped.
    pub version: ReceiveVersion,
}

/// Returns true if nothing can ever arrive any more; an interface that is down may come up again.
fn is_final(error: &DeviceError) -> bool {
    !matches!(error, DeviceError::Down { .. })
}

/// Receives frames by PACKET_RX_RING. Frames that the host itself sends by the interface are not
/// received.
///
/// Frames arrive as on a wire: checksums that their sender had left to an adapter are filled in, VLAN tags
/// are back in place. [`Meta::time_ns`] of each is its time of arrival, since 1970. Frames that the kernel
/// dropped because the ring was full are shown by [`RxDevice::drops`] as `ring-full`.
///
/// An interface that is switched off is reported once; receiving goes on when it is up again.
#[derive(Debug)]
pub struct PacketReceiver {
    link: Link,
    /// `None` once closed.
    ring: Option<BlockRing>,
    super_packets: SuperPackets,
    placer: SgWriter,
    work: Work,
    kernel_drops: KernelDrops,
    /// Of a ring by `TPACKET_V2`.
    stuck: Option<StuckRing>,
    drops: Drops,
    thinning: Thinning,
    /// The next look at the socket's error, after empty polls.
    look: LookTimer,
    /// Error of the interface to be reported, and its time on the exact clock.
    ending: Option<(DeviceError, u64)>,
    ended: bool,
}

/// A PACKET_FANOUT group: its number, once the kernel has given it one.
#[derive(Debug, Default)]
struct Group(Option<u16>);

impl Group {
    /// Binds `socket` and joins it to the fanout group. Until it has joined, a filter drops everything: those
    /// frames belong to other members.
    fn bind(&mut self, socket: &PacketSocket, index: i32) -> io::Result<()> {
        socket.refuse_all()?;
        socket.bind_to_receive(index)?;
        self.0 = Some(socket.join_fanout(self.0)?);
        set_filter(socket.fd(), None)
    }
}

impl PacketReceiver {
    /// Opens `count` receivers that share the frames of interface `interface`: each flow arrives at one of
    /// them (PACKET_FANOUT, by a hash of addresses and ports that is the same for both directions). Each has
    /// a ring of its own.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down, or CAP_NET_RAW is lacking;
    /// [`DeviceError::Unsupported`] if it is no Ethernet.
    pub fn open_queues(
        interface: &str, options: ReceiveOptions, count: usize,
    ) -> Result<Vec<Self>, DeviceError> {
        let mut group = (count > 1).then(Group::default);
        (0..count).map(|_| Self::open_one(interface, options, group.as_mut())).collect()
    }

    fn open_one(
        interface: &str, options: ReceiveOptions, group: Option<&mut Group>,
    ) -> Result<Self, DeviceError> {
        let Opened { socket, link } = Opened::new(interface)?;
        let fault = link.fault("cannot set up a receive ring");
        let index = link.interface.index;
        socket.enable_vnet_header().map_err(&fault)?;
        // Linux before 4.20 lacks the option; frames are distinguished by their kind, too.
        let _ = socket.ignore_outgoing();
        let blocks = (options.buffer_bytes / u64::from(BLOCK_BYTES)).clamp(2, 8192) as u32;
        let shape =
            ReceiveShape { block_bytes: BLOCK_BYTES, blocks, retire_ms: RETIRE_MS, version: options.version };
        let ring = BlockRing::new(socket, shape).map_err(&fault)?;
        if options.promiscuous {
            ring.socket().make_promiscuous(index).map_err(&fault)?;
        }
        match group {
            None => ring.socket().bind_to_receive(index).map_err(&fault)?,
            Some(group) => group.bind(ring.socket(), index).map_err(&fault)?,
        }
        Ok(Self {
            link,
            ring: Some(ring),
            super_packets: options.super_packets,
            placer: SgWriter::default(),
            work: Work::default(),
            kernel_drops: KernelDrops::default(),
            stuck: (options.version == ReceiveVersion::V2).then(StuckRing::default),
            drops: Drops::default(),
            thinning: Thinning::new(PacketBegin::Ethernet(SKB_LOAD_BYTES)),
            look: LookTimer::new(LookTimer::EVERY),
            ending: None,
            ended: false,
        })
    }

    /// Handles one frame, or a segment of one; `to` has room for it.
    fn step(&mut self, cache: &mut Cache, to: &mut Batch) -> Result<Step, DeviceError> {
        if self.work.is_pending() {
            return self.place_work(cache, to);
        }
        let Some(ring) = &mut self.ring else { return Ok(Step::Empty) };
        if ring.ready() == 0 {
            return Ok(Step::Empty);
        }
        let Some(frame) = ring.frame() else {
            ring.advance();
            return Ok(Step::dropped("malformed", &mut self.drops));
        };
        if frame.is_outgoing {
            ring.advance();
            return Ok(Step::Dropped);
        }
        if is_plain(&frame) {
            let meta = Meta { time_ns: frame.time_ns, ..Meta::default() };
            let chunks = [frame.bytes].into_iter();
            let placed = self.placer.place(cache, to, chunks, frame.bytes.len() as u32, &meta);
            let step = Step::placed(placed, &self.link.name, &mut self.drops)?;
            if let (Some(ring), Step::Received | Step::Dropped) = (&mut self.ring, &step) {
                ring.advance();
            }
            return Ok(step);
        }
        let loaded = self.work.load(&frame, self.super_packets);
        ring.advance();
        match loaded {
            Ok(()) => self.place_work(cache, to),
            Err(work::RxReject::Truncated) => Ok(Step::dropped("truncated", &mut self.drops)),
            Err(work::RxReject::Malformed) => Ok(Step::dropped("malformed", &mut self.drops)),
        }
    }

    fn place_work(&mut self, cache: &mut Cache, to: &mut Batch) -> Result<Step, DeviceError> {
        let (bytes, meta) = self.work.next();
        let placed = self.placer.place(cache, to, [bytes].into_iter(), bytes.len() as u32, &meta);
        let step = Step::placed(placed, &self.link.name, &mut self.drops)?;
        if matches!(step, Step::Received | Step::Dropped) {
            self.work.done();
        }
        Ok(step)
    }

    /// Nothing has arrived: looks whether anything still can.
    #[cold]
    fn look(&mut self) -> Result<(), DeviceError> {
        self.look.restart(LookTimer::EVERY);
        if self.ending.is_none()
            && let Some(ring) = &self.ring
            && ring.socket().take_error().is_some()
        {
            let ends_ns = ExactClock.now_ns() + LAST_FRAMES_NS;
            let state = ring.socket().interface_state(&self.link.interface);
            self.ending = self.link.arrival_fault(ring.socket().fd(), state).map(|error| (error, ends_ns));
        }
        match self.ending.take() {
            Some((error, ends_ns)) if ExactClock.now_ns() >= ends_ns => {
                self.ended = is_final(&error);
                Err(error)
            }
            ending => {
                if ending.is_some() {
                    self.look.restart(1);
                }
                self.ending = ending;
                Ok(())
            }
        }
    }

    /// Makes a ring anew that the kernel fills no more, though frames arrive. Nothing has arrived.
    #[cold]
    fn look_at_ring(&mut self) -> Result<(), DeviceError> {
        if !self.stuck.as_mut().is_some_and(StuckRing::is_due) {
            return Ok(());
        }
        self.count_kernel_drops();
        let (stuck, drops) = (self.stuck.as_mut(), self.kernel_drops.total());
        if !stuck.is_some_and(|stuck| stuck.is_stuck(drops)) {
            return Ok(());
        }
        let fault = self.link.fault("cannot make its receive ring anew");
        self.ring = self.ring.take().map(BlockRing::renewed).transpose().map_err(fault)?;
        Ok(())
    }

    fn count_kernel_drops(&mut self) {
        if let Some(Ok(statistics)) = self.ring.as_ref().map(|ring| ring.socket().take_statistics()) {
            self.kernel_drops.add(statistics.drops);
        }
    }
}

impl Notify for PacketReceiver {
    /// Makes the next empty poll look whether anything can still arrive: the interface may be gone.
    fn arm(&mut self) -> bool {
        self.look.restart(1);
        true
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(|ring| ring.socket().fd().as_raw_fd())
    }
}

impl Device for PacketReceiver {
    fn name(&self) -> String {
        self.link.name.clone()
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        let socket = self.ring.as_ref()?.socket();
        let state = socket.interface_state(&self.link.interface);
        Some(self.link.line_fault(socket.fd(), state).map_or(Ok(()), Err))
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Frames are taken from the pool as they arrive: the device holds none.
    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}

    fn close(&mut self) -> Result<(), DeviceError> {
        self.count_kernel_drops();
        self.ring = None;
        Ok(())
    }
}

impl RxDevice for PacketReceiver {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if self.kernel_drops.is_due() {
            self.count_kernel_drops();
        }
        let before = to.len();
        let budget = budget.min(to.room());
        while to.len() - before < budget {
            match self.step(cache, to)? {
                Step::Received | Step::Dropped => {}
                Step::Waits => return Ok(to.len() - before),
                Step::Empty => break,
            }
        }
        if to.len() > before {
            self.stuck.iter_mut().for_each(StuckRing::arrived);
        } else if budget > 0 {
            if self.look.is_due() {
                self.look()?;
            }
            self.look_at_ring()?;
        }
        Ok(to.len() - before)
    }

    fn ended(&self) -> bool {
        self.ended || self.ring.is_none()
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.count_kernel_drops();
        self.kernel_drops.show("ring-full", see);
        self.drops.show(see);
        self.thinning.show(see);
    }

    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        let Some(ring) = &self.ring else { return false };
        self.thinning.thin(passes, |filter| set_filter(ring.socket().fd(), filter))
    }

    /// Returns the time until an end that is due is looked for, or a ring that may be stuck.
    fn next_arrival_ns(&self) -> Option<u64> {
        let ending = self.ending.as_ref().map(|(_, ends_ns)| ends_ns.saturating_sub(ExactClock.now_ns()));
        ending.or_else(|| self.stuck.as_ref().map(StuckRing::left_ns))
    }
}
