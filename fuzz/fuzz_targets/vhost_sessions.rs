//! Connections of a vhost-user front end whose messages look right, with tables of what is in flight and a log of pages of any
//! contents and sizes. Frames go both ways between the messages, by split and packed rings whose every byte may be another's.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Shutdown::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::virtio::packed::PackedDriver;
use wharf_devices::virtio::split::SplitDriver;
use wharf_devices::virtio::{DriverRing, Extent, Layout, Options, Place, feature};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

const QUEUES: usize = 4;
/// The memory has a ring of each queue, buffers of all, and a second region.
const RING_BYTES: usize = 2048;
const BUFFERS_AT: usize = QUEUES * RING_BYTES;
const BUFFER_BYTES: usize = 256;
const MEMORY_BYTES: usize = 64 << 10;
const REGION_BYTES: u64 = 32 << 10;
/// The front end's own addresses, and the guest's.
const USER: u64 = 0x7f00_0000_0000;
const GUEST: u64 = 0x10_0000;
/// The file of the log, and of tables that the front end makes by itself.
const NOTES_BYTES: usize = 32 << 10;
/// Always agreed upon: what the messages below need.
const NEEDED: u64 = feature::VHOST_PROTOCOL | feature::VERSION_1 | feature::MQ;
/// Agreed upon or not, bit by bit.
const CHOSEN: [u64; 8] = [
    feature::PACKED,
    feature::LOG_ALL,
    feature::IN_ORDER,
    feature::EVENT_IDX,
    feature::INDIRECT,
    feature::MRG_RXBUF,
    feature::CSUM | feature::HOST_TSO4,
    feature::GUEST_CSUM | feature::GUEST_TSO4,
];
/// MQ, LOG_SHMFD, REPLY_ACK, CONFIG, INFLIGHT_SHMFD, CONFIGURE_MEM_SLOTS.
const PROTOCOL: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 9 | 1 << 12 | 1 << 15;

/// What a front end does. Most numbers are taken modulo what exists, and a few are not.
#[derive(Debug, Arbitrary)]
enum Step {
    /// All messages of a start, in order: mostly the first step.
    Start {
        features: u8,
        size: u8,
        base: u16,
        regions_one_by_one: bool,
        inflight: Option<Tables>,
        log: Option<(u16, u16)>,
    },
    Features(u8),
    Regions {
        first: u16,
        second: u16,
        overlap: bool,
    },
    Region {
        adds: bool,
        second: bool,
    },
    Size(u8, u16),
    Addresses(u8, [u16; 3]),
    Base(u8, u32),
    Stop(u8),
    Kick(u8, bool),
    Enable(u8, bool),
    AskTables {
        queues: u8,
        size: u16,
    },
    Tables(Tables),
    Log(u16, u16),
    /// Buffers in a ring, as a driver puts them.
    Add {
        queue: u8,
        count: u8,
        len_bytes: u16,
        parts: u8,
    },
    /// Bytes of the memory, the tables or the log.
    Poke {
        of: u8,
        at: u16,
        bytes: [u8; 8],
    },
    /// Frames both ways, once all messages so far are served.
    Move,
    /// The connection ends, and another one begins.
    Reconnect,
}

/// SET_INFLIGHT_FD: of the file that the device made last, or of one of any contents.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Tables {
    made: bool,
    queues: u8,
    size: u16,
    offset: u8,
    len_bytes: u16,
}

/// What the front end shares with the device.
struct Shared {
    memory: Arc<Area>,
    notes: [Arc<Area>; 2],
    event: EventFd,
}

struct Rig {
    pool: PagePool,
    cache: Cache,
    shared: Arc<Shared>,
}

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new());
}

impl Rig {
    fn new() -> Self {
        let pool = PagePool::builder().frames(256).huge_pages(false).build().unwrap();
        let cache = pool.cache("fuzz").unwrap();
        let area = |bytes| Arc::new(Area::new(Mapping::shared_small_pages(bytes).unwrap()));
        let notes = [area(NOTES_BYTES), area(NOTES_BYTES)];
        let shared = Shared { memory: area(MEMORY_BYTES), notes, event: EventFd::new().unwrap() };
        Self { pool, cache, shared: Arc::new(shared) }
    }
}

fn fd(area: &Area) -> RawFd {
    area.mapping().unwrap().fd().unwrap().as_raw_fd()
}

/// The front end.
struct Front {
    shared: Arc<Shared>,
    steps: VecDeque<Step>,
    stream: UnixStream,
    features: u64,
    size: u16,
    rings: [Option<Box<dyn DriverRing>>; QUEUES],
    /// The tables that the device has made.
    made: Option<OwnedFd>,
}

impl Front {
    fn view(&self, area: &Arc<Area>) -> View {
        View::new(area, 0, area.len_bytes()).unwrap()
    }

    fn send(&self, request: u32, words: &[u64], fds: &[RawFd]) {
        let body = words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let bytes = [&[request, 1, body.len() as u32].map(u32::to_ne_bytes).concat()[..], &body].concat();
        // The device may have hung up.
        let _ = self.stream.send_with_fds(&[&bytes[..]], fds);
    }

    /// Two words of 32 bits in one.
    fn two(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    fn set_features(&mut self, chosen: u8) {
        let bits = CHOSEN.iter().enumerate().filter(|(at, _)| chosen >> at & 1 != 0);
        self.features = bits.fold(NEEDED, |all, (_, bit)| all | bit);
        self.send(2, &[self.features], &[]);
    }

    fn region(second: bool, bytes: u64) -> [u64; 4] {
        let at = if second { REGION_BYTES } else { 0 };
        [GUEST + at, bytes, USER + at, at]
    }

    fn set_regions(&self, first: u64, second: u64) {
        let both = [Self::region(false, first), Self::region(true, second)];
        self.send(5, &[&[2][..], both.as_flattened()].concat(), &[fd(&self.shared.memory); 2]);
    }

    fn change_region(&self, adds: bool, second: bool) {
        let words = [&[0][..], &Self::region(second, REGION_BYTES)].concat();
        self.send(if adds { 37 } else { 38 }, &words, &[fd(&self.shared.memory)][..usize::from(adds)]);
    }

    fn set_addresses(&self, queue: u32, [descriptors, driver, device]: [u64; 3]) {
        let words = [Self::two(queue, 0), USER + descriptors, USER + device, USER + driver, 0];
        self.send(9, &words, &[]);
    }

    /// Makes the driver's side of a ring, and announces it.
    fn ring(&mut self, queue: usize, base: u32) {
        let layout = if self.features & feature::PACKED != 0 { Layout::Packed } else { Layout::Split };
        let at = queue * RING_BYTES;
        let starts = Place::offsets(layout, self.size, at).map(|at| at as u64);
        let place = Place::within(&self.shared.memory, at, layout, self.size.into()).unwrap();
        let options = Options::of(self.features);
        self.rings[queue] = Some(match layout {
            Layout::Split => Box::new(SplitDriver::new(place, options).unwrap()) as Box<dyn DriverRing>,
            Layout::Packed => Box::new(PackedDriver::new(place, options).unwrap()),
        });
        let number = queue as u32;
        self.send(8, &[Self::two(number, self.size.into())], &[]);
        self.send(10, &[Self::two(number, base)], &[]);
        self.set_addresses(number, starts);
        self.send(13, &[number.into()], &[self.shared.event.as_fd().as_raw_fd()]);
        self.send(12, &[number.into()], &[self.shared.event.as_fd().as_raw_fd()]);
        self.send(18, &[Self::two(number, 1)], &[]);
    }

    fn set_tables(&self, tables: Tables) {
        let offset = u64::from(tables.offset) * if tables.offset & 1 == 0 { 64 } else { 1 };
        let queues = Self::two(u32::from(tables.queues % 6) | u32::from(tables.size) << 16, 0);
        let made = self.made.as_ref().filter(|_| tables.made).map(AsRawFd::as_raw_fd);
        let file = made.unwrap_or(fd(&self.shared.notes[0]));
        self.send(32, &[u64::from(tables.len_bytes), offset, queues], &[file]);
    }

    fn set_log(&self, len_bytes: u16, offset: u16) {
        self.send(6, &[len_bytes.into(), u64::from(offset) * 8], &[fd(&self.shared.notes[1])]);
    }

    /// Takes the answers that have come, and the last tables among them.
    fn take_answers(&mut self) {
        let mut answer = [0; 4096];
        while let Ok((1.., file)) = self.stream.recv_with_fd(&mut answer) {
            self.made = file.map(OwnedFd::from).or(self.made.take());
        }
    }

    fn add(&mut self, queue: usize, count: u8, len_bytes: u16, parts: u8) {
        let Some(ring) = &mut self.rings[queue] else { return };
        while let Ok(Some(_)) = ring.next_used() {}
        for at in 0..u64::from(count % 32) {
            let slot = (queue as u64 * 32 + at) % ((MEMORY_BYTES - BUFFERS_AT) / BUFFER_BYTES) as u64;
            let address = GUEST + BUFFERS_AT as u64 + slot * BUFFER_BYTES as u64;
            let part = Extent { address, len_bytes: len_bytes.into() };
            let all = vec![part; usize::from(parts % 4) + 1];
            let _ = if queue % 2 == 0 { ring.add(&[], &all) } else { ring.add(&all, &[]) };
        }
        ring.publish();
    }

    fn poke(&self, of: u8, at: u16, bytes: [u8; 8]) {
        let [tables, log] = &self.shared.notes;
        let area = [&self.shared.memory, tables, log][usize::from(of % 3)];
        let view = self.view(area);
        view.copy_in(usize::from(at) % (view.len_bytes() - bytes.len()), &bytes);
    }

    fn start(&mut self, features: u8, size: u8, base: u16, one_by_one: bool) {
        self.size = 1 << (size % 6);
        self.send(16, &[PROTOCOL], &[]);
        self.set_features(features);
        match one_by_one {
            true => [false, true].into_iter().for_each(|second| self.change_region(true, second)),
            false => self.set_regions(REGION_BYTES, REGION_BYTES),
        }
        let is_packed = self.features & feature::PACKED != 0;
        let base = if is_packed { u32::from(base % self.size) | 0x8000 } else { base.into() };
        (0..QUEUES).for_each(|queue| self.ring(queue, base));
    }

    /// Does what comes next. Returns false once frames are to move.
    fn step(&mut self, step: Step) -> bool {
        let queue = |queue: u8| u32::from(queue % 5);
        match step {
            Step::Start { features, size, base, regions_one_by_one, inflight, log } => {
                log.into_iter().for_each(|(bytes, offset)| self.set_log(bytes, offset));
                self.start(features, size, base, regions_one_by_one);
                inflight.into_iter().for_each(|tables| self.set_tables(Tables { size: self.size, ..tables }));
                return false;
            }
            Step::Features(chosen) => self.set_features(chosen),
            Step::Regions { first, second, overlap } => {
                let more = if overlap { REGION_BYTES } else { 0 };
                self.set_regions(u64::from(first) + more, second.into());
            }
            Step::Region { adds, second } => self.change_region(adds, second),
            Step::Size(at, size) => self.send(8, &[Self::two(queue(at), size.into())], &[]),
            Step::Addresses(at, starts) => self.set_addresses(queue(at), starts.map(u64::from)),
            Step::Base(at, base) => self.send(10, &[Self::two(queue(at), base)], &[]),
            Step::Stop(at) => self.send(11, &[queue(at).into()], &[]),
            Step::Kick(at, true) => {
                self.send(12, &[queue(at).into()], &[self.shared.event.as_fd().as_raw_fd()])
            }
            Step::Kick(at, false) => self.send(12, &[u64::from(queue(at)) | 1 << 8], &[]),
            Step::Enable(at, on) => self.send(18, &[Self::two(queue(at), on.into())], &[]),
            Step::AskTables { queues, size } => {
                self.send(31, &[0, 0, Self::two(u32::from(queues % 6) | u32::from(size) << 16, 0)], &[]);
            }
            Step::Tables(tables) => self.set_tables(tables),
            Step::Log(bytes, offset) => self.set_log(bytes, offset),
            Step::Add { queue, count, len_bytes, parts } => {
                self.add(usize::from(queue) % QUEUES, count, len_bytes, parts);
            }
            Step::Poke { of, at, bytes } => self.poke(of, at, bytes),
            Step::Move | Step::Reconnect => return false,
        }
        true
    }

    /// Speaks until frames are to move, or the connection ends.
    fn speak(&mut self) {
        self.take_answers();
        while let Some(step) = self.steps.pop_front().filter(|step| !matches!(step, Step::Reconnect)) {
            if !self.step(step) {
                return;
            }
        }
        let _ = self.stream.shutdown(Write);
    }
}

fuzz_target!(|steps: Vec<Step>| {
    RIG.with_borrow_mut(|rig| {
        for area in rig.shared.notes.iter().chain([&rig.shared.memory]) {
            View::new(area, 0, area.len_bytes()).unwrap().copy_in(0, &[0; MEMORY_BYTES][..area.len_bytes()]);
        }
        let mut steps = steps.into_iter().take(64).collect::<VecDeque<_>>();
        let mut made = None;
        while !steps.is_empty() {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            let shared = rig.shared.clone();
            let mut front = Front {
                shared,
                steps,
                stream: near,
                features: NEEDED,
                size: 16,
                rings: Default::default(),
                made,
            };
            let _ = wharf_devices::vhost_user::converse(&far, &mut rig.cache, || front.speak());
            // What was left unsaid is for the next connection.
            (steps, made) = (front.steps, front.made);
            let audit = rig.pool.audit();
            assert_eq!(audit.out(), 0);
        }
    });
});
