//! Split rings against another implementation, rust-vmm's `virtio-queue`: two rings that our driver fills
//! alike, of which one has our device behind it and the other theirs. Both see the same chains, and write the
//! same used rings.

use super::pair::{BUFFER_BYTES, GUEST, area, extent};
use proptest::prelude::*;
use std::fs::File;
use std::sync::Arc;
use virtio_queue::{Queue, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use wharf_devices::virtio::split::{SplitDevice, SplitDriver};
use wharf_devices::virtio::{
    Chain, DeviceRing, DriverRing, Extent, Layout, Memory, MemoryRegion, Options, Place, Token,
};
use wharf_sys::shared::Area;

/// Address of the rings for their device.
const RING: u64 = 0x1000_0000;

#[derive(Debug, Clone)]
enum Op {
    /// So many chains, of parts to be read and parts to be written.
    Add(Vec<(usize, usize)>),
    /// The devices take so many, and use them with so many bytes written, at most.
    Use(usize, u32),
    /// The driver takes used buffers.
    Reclaim,
    /// The driver asks to be told, at once or later, or not to be.
    Ask,
    AskLater,
    AskNot,
    /// The devices ask to be told, or not to be.
    Enable,
    Disable,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let chains = prop::collection::vec((0usize..3, 0usize..3), 1..6);
    let op = prop_oneof![
        3 => chains.prop_map(Op::Add),
        3 => (1usize..8, 0u32..200).prop_map(|(count, bytes)| Op::Use(count, bytes)),
        2 => Just(Op::Reclaim),
        1 => Just(Op::Ask),
        1 => Just(Op::AskLater),
        1 => Just(Op::AskNot),
        1 => Just(Op::Enable),
        1 => Just(Op::Disable),
    ];
    prop::collection::vec(op, 1..200)
}

/// A driver of ours, its ring, and where that lies.
struct Ring {
    area: Arc<Area>,
    place: Place,
    driver: SplitDriver,
}

impl Ring {
    fn new(size: u16, options: Options, index: u16) -> Self {
        let area = area(Place::len_bytes(Layout::Split, size));
        let place = Place::within(&area, 0, Layout::Split, size.into()).unwrap();
        let driver = SplitDriver::beginning_at(place.clone(), options, index).unwrap();
        Self { area, place, driver }
    }

    /// Index and entries of the used ring: its flags and its event are compared by their effect.
    fn used(&self) -> Vec<u16> {
        let view = self.place.areas()[2];
        (1..2 + 4 * usize::from(self.place.size())).map(|word| view.load_u16(2 * word)).collect()
    }

    /// Returns the index at which the device wants its next notification.
    fn event(&self) -> u16 {
        self.place.areas()[2].load_u16(4 + 8 * usize::from(self.place.size()))
    }
}

/// The parts of a chain as a device saw them: address, length, true if it is to be written.
type Parts = Vec<(u64, u32, bool)>;

struct Both {
    ours: Ring,
    device: SplitDevice,
    memory: Memory,
    chain: Chain,
    theirs: Ring,
    queue: Queue,
    guest: GuestMemoryMmap,
    options: Options,
    /// At which used index the driver asks to be told, if at any.
    asked: Option<u16>,
    /// It has said so; and our device has told of something, which it does the first time whatever was asked.
    has_asked: bool,
    has_told: bool,
    used: u16,
    reclaimed: u16,
}

impl Both {
    fn new(size: u16, options: Options, index: u16) -> Self {
        let (ours, theirs) = (Ring::new(size, options, index), Ring::new(size, options, index));
        let buffers = area(BUFFER_BYTES as usize);
        let region = MemoryRegion::new(GUEST, GUEST, &buffers, 0, BUFFER_BYTES.into()).unwrap();
        let file = |area: &Area| {
            let owned = area.mapping().unwrap().fd().unwrap().try_clone_to_owned().unwrap();
            Some(FileOffset::new(File::from(owned), 0))
        };
        let ranges = [
            (GuestAddress(GUEST), BUFFER_BYTES as usize, file(&buffers)),
            (GuestAddress(RING), theirs.area.len_bytes(), file(&theirs.area)),
        ];
        let guest = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        let mut queue = Queue::new(size).unwrap();
        let [descriptors, driver, device] =
            Place::offsets(Layout::Split, size, 0).map(|at| RING as u32 + at as u32);
        queue.set_desc_table_address(Some(descriptors), Some(0));
        queue.set_avail_ring_address(Some(driver), Some(0));
        queue.set_used_ring_address(Some(device), Some(0));
        queue.set_event_idx(options.event_idx);
        queue.set_next_avail(index);
        queue.set_next_used(index);
        queue.set_ready(true);
        assert!(queue.is_valid(&guest));
        let device = SplitDevice::new(ours.place.clone(), options, index.into()).unwrap();
        let (memory, chain) = (Memory::new(vec![region]).unwrap(), Chain::new());
        Self {
            ours,
            device,
            memory,
            chain,
            theirs,
            queue,
            guest,
            options,
            asked: None,
            has_asked: false,
            has_told: false,
            used: index,
            reclaimed: index,
        }
    }

    fn add(&mut self, chains: &[(usize, usize)]) {
        for &(readable, writable) in chains {
            let parts: Vec<Extent> =
                (0..readable + writable).map(|at| extent(4096 * at as u32, 100 + at as u32)).collect();
            let (read, write) = parts.split_at(readable);
            assert_eq!(self.ours.driver.add(read, write), self.theirs.driver.add(read, write));
        }
        assert_eq!(self.ours.driver.publish(), self.theirs.driver.publish());
    }

    /// The next chain, as each device sees it.
    fn pop(&mut self) -> Option<(Token, u16)> {
        let ours = self.device.pop(&self.memory, &mut self.chain).unwrap();
        let theirs = self.queue.pop_descriptor_chain(&self.guest);
        assert_eq!(ours, theirs.is_some());
        let theirs = theirs?;
        let (token, head) = (self.chain.token(), theirs.head_index());
        assert_eq!(token.id(), head);
        let theirs: Parts = theirs.map(|part| (part.addr().0, part.len(), part.is_write_only())).collect();
        let sum = |writable: bool| -> u32 {
            theirs.iter().filter(|part| part.2 == writable).map(|part| part.1).sum()
        };
        assert_eq!((self.chain.readable_bytes(), self.chain.writable_bytes()), (sum(false), sum(true)));
        let count = |writable: bool| theirs.iter().filter(|part| part.2 == writable).count();
        assert_eq!((self.chain.readable().len(), self.chain.writable().len()), (count(false), count(true)));
        self.check_bytes(&theirs);
        Some((token, head))
    }

    /// Checks that both devices read the same bytes. Each part begins with its own address.
    fn check_bytes(&self, theirs: &Parts) {
        use vm_memory::Bytes;
        let mut skip = 0;
        for &(address, len_bytes, _) in theirs.iter().filter(|part| !part.2) {
            self.guest.write_obj(address ^ u64::from(skip), GuestAddress(address)).unwrap();
            let mut bytes = [0; 8];
            assert_eq!(self.chain.copy_out(&self.memory, skip, &mut bytes), 8);
            assert_eq!(u64::from_ne_bytes(bytes), address ^ u64::from(skip));
            skip += len_bytes;
        }
    }

    fn put(&mut self, count: usize, most_bytes: u32) {
        let before = self.used;
        if !self.options.event_idx {
            // A flag says whether to tell, of whatever comes.
            self.asked = self.asked.map(|_| before);
        }
        for _ in 0..count {
            let Some((token, head)) = self.pop() else { break };
            let written = most_bytes.min(self.chain.writable_bytes());
            self.device.put_used(token, written);
            self.queue.add_used(&self.guest, head, written).unwrap();
            self.used = self.used.wrapping_add(1);
        }
        self.device.publish();
        assert_eq!(self.ours.used(), self.theirs.used());
        if self.used == before {
            return;
        }
        let told = [self.device.needs_notification(), self.queue.needs_notification(&self.guest).unwrap()];
        // The event was passed: both must tell. Theirs knows no flag that says not to.
        let passed = self.asked.is_some_and(|at| at.wrapping_sub(before) < self.used.wrapping_sub(before));
        // In doubt a device tells.
        let context = format!("{told:?}, {:?} from {before} to {}", self.asked, self.used);
        assert!(!passed || told == [true; 2], "{context}");
        assert!(told[0] == passed || !(self.has_asked && self.has_told), "{context}");
        self.has_told = true;
    }

    fn reclaim(&mut self) {
        loop {
            let [ours, theirs] =
                [&mut self.ours, &mut self.theirs].map(|ring| ring.driver.next_used().unwrap());
            assert_eq!(ours, theirs);
            if ours.is_none() {
                return;
            }
            self.reclaimed = self.reclaimed.wrapping_add(1);
        }
    }

    fn ask(&mut self, later: bool) {
        let in_flight = self.ours.driver.outstanding();
        let quiet = [&mut self.ours, &mut self.theirs].map(|ring| match later {
            true => ring.driver.enable_notification_delayed(),
            false => ring.driver.enable_notification(),
        });
        assert_eq!(quiet[0], quiet[1]);
        let after = if later { (u32::from(in_flight) * 3 / 4) as u16 } else { 0 };
        self.asked = Some(self.reclaimed.wrapping_add(after));
    }

    fn run(&mut self, op: &Op) {
        self.has_asked |= matches!(op, Op::Ask | Op::AskLater | Op::AskNot);
        match op {
            Op::Add(chains) => self.add(chains),
            Op::Use(count, bytes) => self.put(*count, *bytes),
            Op::Reclaim => self.reclaim(),
            Op::Ask => self.ask(false),
            Op::AskLater => self.ask(true),
            Op::AskNot => {
                [&mut self.ours, &mut self.theirs]
                    .into_iter()
                    .for_each(|ring| ring.driver.disable_notification());
                self.asked = None;
            }
            Op::Enable => {
                let something_came = self.queue.enable_notification(&self.guest).unwrap();
                assert_eq!(self.device.enable_notification(), !something_came);
                if self.options.event_idx {
                    assert_eq!(self.ours.event(), self.theirs.event());
                }
            }
            Op::Disable => {
                self.device.disable_notification();
                self.queue.disable_notification(&self.guest).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn both_devices_see_the_same_chains_and_write_the_same_rings(
        ops in ops(), order in 0u32..7, event_idx in any::<bool>(), index in prop_oneof![Just(0u16), Just(65520), any::<u16>()],
    ) {
        let options = Options { event_idx, ..Options::default() };
        let mut both = Both::new(1 << order, options, index);
        ops.iter().for_each(|op| both.run(op));
        // All that was given comes back.
        both.put(usize::MAX, 7);
        both.reclaim();
        prop_assert_eq!(both.ours.driver.outstanding(), 0);
    }
}
