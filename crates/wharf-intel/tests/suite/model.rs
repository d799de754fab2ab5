//! A model of an adapter: registers in a table, rings and frames by mappings of its own. It does what the test says,
//! and no more.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::random::SplitMix64;
use wharf_intel::bus::Bus;
use wharf_intel::family::{Family, RingRegisters};
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

const REGISTER_BYTES: u32 = 128 << 10;
const STATUS: u32 = 8;
const LINK_UP: u32 = 2;
const STEP: u64 = 2 << 20;

/// The adapter. A clone is the same one: the test's end of it.
#[derive(Debug, Clone)]
pub struct Model(Arc<State>);

#[derive(Debug)]
struct State {
    registers: Mutex<Vec<u32>>,
    /// Memory that it reaches: its address, and whether it may write there.
    memory: Mutex<Vec<(u64, View, bool)>>,
    next: AtomicU64,
    is_master: AtomicBool,
    is_wanted: AtomicBool,
    /// An interrupt has come.
    has_come: AtomicBool,
    /// Writes to registers, the last ones at the end.
    writes: Mutex<Vec<(u32, u32)>>,
    /// Reads of registers.
    reads: Mutex<Vec<u32>>,
    /// Chance by which a register reads as anything; `None` for an adapter that does not lie.
    lies: Mutex<Option<SplitMix64>>,
    /// A register that keeps its value.
    stuck: AtomicU32,
    /// The time, ns: it passes as the test says.
    now_ns: AtomicU64,
    /// Context descriptors that it was given.
    contexts: Mutex<Vec<[u64; 2]>>,
    /// Bytes of the descriptors of data.
    parts: Mutex<Vec<usize>>,
}

impl Model {
    pub fn new() -> Self {
        let mut registers = vec![0; REGISTER_BYTES as usize / 4];
        registers[STATUS as usize / 4] = LINK_UP;
        // The EEPROM has been read, and the PHY answers.
        registers[0x10 / 4] = 1 << 9;
        Self(Arc::new(State {
            registers: Mutex::new(registers),
            memory: Mutex::default(),
            next: AtomicU64::new(1 << 32),
            is_master: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            has_come: AtomicBool::new(false),
            writes: Mutex::default(),
            reads: Mutex::default(),
            lies: Mutex::new(None),
            stuck: AtomicU32::new(u32::MAX),
            now_ns: AtomicU64::new(1 << 40),
            contexts: Mutex::default(),
            parts: Mutex::default(),
        }))
    }

    pub fn set(&self, at: u32, value: u32) {
        self.0.registers.lock().unwrap()[at as usize / 4] = value;
    }

    pub fn get(&self, at: u32) -> u32 {
        self.0.registers.lock().unwrap()[at as usize / 4]
    }

    /// One read in four is a lie from now on, whatever the register; one in a thousand says that there is no adapter.
    pub fn lie(&self, seed: u64) {
        *self.0.lies.lock().unwrap() = Some(SplitMix64::new(seed));
    }

    fn lie_of_a_read(&self) -> Option<u32> {
        let mut lies = self.0.lies.lock().unwrap();
        let chance = lies.as_mut()?;
        match chance.below(1000) {
            0 => Some(u32::MAX),
            1..250 => Some(chance.draw() as u32),
            _ => None,
        }
    }

    pub fn set_link(&self, is_up: bool) {
        self.set(STATUS, if is_up { LINK_UP } else { 0 });
    }

    /// All registers read as ones: it has been pulled out.
    pub fn pull_out(&self) {
        self.0.registers.lock().unwrap().fill(u32::MAX);
    }

    pub fn is_out(&self) -> bool {
        self.get(STATUS) == u32::MAX
    }

    pub fn interrupt(&self) {
        self.0.has_come.store(true, Relaxed);
    }

    pub fn pass(&self, time: Duration) {
        self.0.now_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// The kernel wants it back.
    pub fn ask_back(&self) {
        self.0.is_wanted.store(true, Relaxed);
    }

    pub fn contexts(&self) -> Vec<[u64; 2]> {
        self.0.contexts.lock().unwrap().clone()
    }

    pub fn parts(&self) -> Vec<usize> {
        self.0.parts.lock().unwrap().clone()
    }

    pub fn is_master(&self) -> bool {
        self.0.is_master.load(Relaxed)
    }

    /// Register `at` keeps its value from now on.
    pub fn stick(&self, at: u32) {
        self.0.stuck.store(at, Relaxed);
    }

    /// Returns the number of reads of a register.
    pub fn reads_of(&self, at: u32) -> usize {
        self.0.reads.lock().unwrap().iter().filter(|of| **of == at).count()
    }

    /// True if it may write to the memory that it was given first, the pool's.
    pub fn may_write_to_the_pool(&self) -> bool {
        self.0.memory.lock().unwrap()[0].2
    }

    /// Returns the number of writes to a register.
    pub fn writes_to(&self, at: u32) -> usize {
        self.0.writes.lock().unwrap().iter().filter(|(to, _)| *to == at).count()
    }

    /// Calls `access` with the view that has the `len` bytes at `address`, and their place in it. Panics where the
    /// driver has not let the adapter reach that, as an IOMMU would refuse it.
    fn at<R>(&self, address: u64, len: usize, access: impl FnOnce(&View, usize) -> R) -> R {
        let memory = self.0.memory.lock().unwrap();
        let has = |(start, view, _): &&(u64, View, bool)| {
            (*start..*start + view.len_bytes() as u64).contains(&address)
                && (address - start) as usize + len <= view.len_bytes()
        };
        let (start, view, _) = memory.iter().find(has).unwrap_or_else(|| panic!("DMA fault at {address:#x}"));
        access(view, (address - start) as usize)
    }

    pub fn read_memory(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.at(address, len, |view, at| assert!(view.copy_out(at, &mut bytes)));
        bytes
    }

    pub fn write_memory(&self, address: u64, bytes: &[u8]) {
        self.at(address, bytes.len(), |view, at| assert!(view.copy_in(at, bytes)));
    }

    /// Returns the address of descriptor `place` of a ring.
    fn descriptor_at(&self, ring: RingRegisters, place: u32) -> u64 {
        let base = u64::from(self.get(ring.base)) | u64::from(self.get(ring.base + 4)) << 32;
        base + 16 * u64::from(place)
    }

    pub fn size(&self, ring: RingRegisters) -> u32 {
        self.get(ring.base + 8) / 16
    }

    pub fn descriptor(&self, ring: RingRegisters, place: u32) -> [u64; 2] {
        let at = self.descriptor_at(ring, place);
        self.at(at, 16, |view, at| [view.load_u64_acquire(at), view.load_u64_acquire(at + 8)])
    }

    pub fn write_back(&self, ring: RingRegisters, place: u32, [first, second]: [u64; 2]) {
        let at = self.descriptor_at(ring, place);
        self.at(at, 16, |view, at| {
            view.store_u64(at, first);
            view.store_u64_release(at + 8, second);
        });
    }

    /// Sends all that the driver has posted, as a right adapter does. Returns the frames.
    pub fn send_all<F: Family + Words>(&self) -> Vec<Vec<u8>> {
        let (ring, mut sent, mut frame) = (F::tx_ring(0), Vec::new(), Vec::new());
        let (mut head, tail) = (self.get(ring.head), self.get(ring.tail));
        while head != tail {
            let words = self.descriptor(ring, head);
            let (len, is_last, reports) = if F::is_context(words[1]) {
                self.0.contexts.lock().unwrap().push(words);
                (0, false, false)
            } else {
                F::posted(words[1])
            };
            assert!(len <= 16_288, "longer than a descriptor of data may be");
            if len > 0 {
                self.0.parts.lock().unwrap().push(len);
                frame.extend(self.read_memory(words[0], len));
            }
            if is_last {
                sent.push(std::mem::take(&mut frame));
            }
            if reports {
                self.write_back(ring, head, [words[0], words[1] | F::TX_DONE]);
            }
            head = (head + 1) % self.size(ring);
        }
        self.set(ring.head, head);
        sent
    }

    /// Receives a frame, in as many buffers of `buffer` bytes as it takes. Returns false without buffers.
    pub fn arrive<F: Family + Words>(&self, bytes: &[u8], buffer: usize) -> bool {
        let ring = F::rx_ring(0);
        let (mut head, tail, size) = (self.get(ring.head), self.get(ring.tail), self.size(ring));
        let free = (tail + size - head) % size;
        if (free as usize) < bytes.len().div_ceil(buffer) {
            return false;
        }
        let count = bytes.len().div_ceil(buffer);
        for (at, part) in bytes.chunks(buffer).enumerate() {
            let [address, _] = self.descriptor(ring, head);
            self.write_memory(address, part);
            self.write_back(ring, head, [F::first(address), F::arrived(part.len() as u64, at + 1 == count)]);
            head = (head + 1) % size;
        }
        self.set(ring.head, head);
        true
    }
}

/// The words that an adapter reads and writes, written down a second time here.
pub trait Words {
    const TX_DONE: u64 = 1 << 32;
    /// Length, end of packet and report of a posted descriptor.
    fn posted(second: u64) -> (usize, bool, bool) {
        ((second & 0xffff) as usize, second & 1 << 24 != 0, second & 1 << 27 != 0)
    }
    fn is_context(second: u64) -> bool;
    fn first(address: u64) -> u64;
    fn arrived(len: u64, is_last: bool) -> u64;
}

impl Words for wharf_intel::e1000::E1000 {
    fn is_context(second: u64) -> bool {
        second & 0x20f0_0000 == 0x2000_0000
    }

    fn first(address: u64) -> u64 {
        address
    }

    fn arrived(len: u64, is_last: bool) -> u64 {
        len | 1 << 32 | u64::from(is_last) << 33
    }
}

impl Words for wharf_intel::igb::Igb {
    fn is_context(second: u64) -> bool {
        second & 0x20f0_0000 == 0x2020_0000
    }

    fn first(_address: u64) -> u64 {
        0xdead_beef_0000_0001
    }

    fn arrived(len: u64, is_last: bool) -> u64 {
        len << 32 | 1 | u64::from(is_last) << 1
    }
}

impl Bus for Model {
    fn read(&self, at: u32) -> u32 {
        if let Some(lie) = self.lie_of_a_read() {
            return lie;
        }
        self.0.reads.lock().unwrap().push(at);
        self.get(at)
    }

    fn write(&self, at: u32, value: u32) {
        self.0.writes.lock().unwrap().push((at, value));
        if at == self.0.stuck.load(Relaxed) {
            return;
        }
        // `MDIC` answers at once: the access is done.
        self.set(at, if at == 0x20 { value | 1 << 28 } else { value });
    }

    fn map(&self, mapping: &Mapping, is_writable: bool) -> io::Result<u64> {
        let area = Arc::new(Area::of_peer(mapping.fd()?, mapping.len_bytes() as u64)?);
        let view = View::new(&area, 0, mapping.len_bytes()).unwrap();
        let at = self.0.next.fetch_add((mapping.len_bytes() as u64).next_multiple_of(STEP), Relaxed);
        self.0.memory.lock().unwrap().push((at, view, is_writable));
        Ok(at)
    }

    fn set_bus_master(&self, is_on: bool) {
        self.0.is_master.store(is_on, Relaxed);
    }

    fn wait_fd(&self, _vector: u32) -> Option<RawFd> {
        None
    }

    fn take(&self, _vector: u32) -> bool {
        self.0.has_come.swap(false, Relaxed)
    }

    fn unmask(&self) {}

    fn now_ns(&self) -> u64 {
        self.0.now_ns.load(Relaxed)
    }

    fn pause(&self, _duration: Duration) {}

    fn is_requested(&self) -> bool {
        self.0.is_wanted.load(Relaxed)
    }
}
