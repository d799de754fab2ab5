//! The hardware alone, with a driver that writes wrong tails, or asks for a completion of nothing.

use wharf_core::pool::PagePool;
use wharf_mem::lock;
use wharf_plan::pcie::BusSpec;
use wharf_sim::engine::Random;
use wharf_sim::nic::buffers::Buffers;
use wharf_sim::nic::cx5::completion::{Completion, Opcode};
use wharf_sim::nic::cx5::compress::{CompletionRing, CompletionWriter};
use wharf_sim::nic::cx5::expand::CompletionReader;
use wharf_sim::nic::cx5::formats::{Descriptors, Entries};
use wharf_sim::nic::cx5::half::{ReceiveQueues, SELECTED};
use wharf_sim::nic::cx5::segment::{BLOCK_BYTES, Control, Kind, Pointer, SEGMENT_BYTES};
use wharf_sim::nic::cx5::slim::SlimEntries;
use wharf_sim::nic::host_memory::{Doorbell, HostMemory, SharedMemory};
use wharf_sim::nic::port::{Arrivals, Port, PortCosts};
use wharf_sim::nic::receive::ReceiveCosts;
use wharf_sim::nic::ring::Ring;
use wharf_sim::nic::send::{SendCosts, SendFormat};

/// Bus address of the packets.
const PACKETS: u64 = 1 << 40;

struct Alone<S> {
    _pool: PagePool,
    memory: SharedMemory,
    port: Port<S, Descriptors>,
    send: Ring,
    receive: ReceiveQueues,
    sent: CompletionReader,
    now_ps: u64,
}

impl<S: SendFormat> Alone<S> {
    /// Creates 64 units of `unit_bytes` to send from, and 64 receive buffers, none of them posted.
    fn new(unit_bytes: u32, format: fn(CompletionWriter, u32) -> S) -> Self {
        let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
        let memory = HostMemory::shared();
        let mut there = lock(&memory);
        let buffers = Buffers::new(pool.region(), &mut there);
        let send = Ring::allocate(6, unit_bytes as usize, &mut there);
        let receive = ReceiveQueues::allocate(6, SEGMENT_BYTES, 6, &mut there);
        let sent = CompletionRing::allocate(6, &mut there);
        let reader = CompletionReader::new(sent, SELECTED, &mut there).unwrap();
        drop(there);
        let bus = BusSpec { link: "gen3x16".parse().unwrap(), tags: 256, latency_ps: 600_000 };
        let costs = PortCosts {
            bus,
            send: SendCosts {
                entry_ps: 0,
                fetch_bytes: 512,
                fetches: 4,
                wire_ps_per_byte: 80,
                wire_overhead_bytes: 20,
                ahead_ps: 2_000_000,
            },
            receive: ReceiveCosts {
                buffer_bytes: 1 << 17,
                fetch_bytes: 512,
                keep_ps: 1_000_000,
                posted_packets: 3,
            },
        };
        let receives = Descriptors::new(CompletionWriter::new(receive.completions, None), 0, receive.record);
        let sends = format(CompletionWriter::new(sent, None), 0);
        let (queues, mut arrivals) = (
            vec![(receive.ring, receives)],
            Arrivals::at_wire_rate(vec![(64, 1)], 1, 80, 20, Random::new(1)),
        );
        arrivals.end();
        let port = Port::new(&costs, memory.clone(), buffers, vec![(send, sends)], queues, arrivals);
        Self { _pool: pool, memory, port, send, receive, sent: reader, now_ps: 0 }
    }

    /// Runs until nothing is in flight.
    fn run(&mut self) {
        while self.port.due_ps() < u64::MAX {
            self.now_ps = self.port.due_ps();
            self.port.step(self.now_ps).unwrap();
        }
    }

    fn ring(&mut self, receive: bool, value: u32) {
        let doorbell = Doorbell { queue: 0, receive, value, len_bytes: 8 };
        self.port.ring(self.now_ps, &mut [doorbell].into());
        self.run();
    }

    fn fault(&self) -> String {
        self.port.fault().map_or_else(String::new, ToString::to_string)
    }

    fn write(&mut self, index: u32, segment: usize, bytes: &[u8]) {
        let at = self.send.at(index) + (segment * SEGMENT_BYTES) as u64;
        lock(&self.memory).write(at, bytes).unwrap();
    }

    fn completed(&mut self) -> Vec<u16> {
        let mut memory = lock(&self.memory);
        let next = || {
            self.sent.next(&mut memory).unwrap().map(|completion: Completion| {
                assert_eq!(completion.opcode, Opcode::Sent);
                completion.counter
            })
        };
        std::iter::from_fn(next).collect()
    }

    /// Lets `packets` arrive, one after the other.
    fn arrive(&mut self, packets: usize) {
        for _ in 0..packets {
            self.port.arrivals.next_ps = self.now_ps;
            self.port.step(self.now_ps).unwrap();
            self.port.arrivals.end();
            self.run();
        }
    }
}

#[test]
fn empty_entry_is_completed_in_its_turn() {
    let mut alone = Alone::new(BLOCK_BYTES as u32, Entries::new);
    let control = |kind, index, segments, completion| {
        Control { kind, index, queue: 0, segments, completion }.to_segment()
    };
    alone.write(0, 0, &control(Kind::Nop, 0, 1, true));
    alone.write(1, 0, &control(Kind::Send, 1, 3, true));
    alone.write(1, 2, &Pointer { address: PACKETS, len_bytes: 64, key: 0 }.to_segment());
    alone.write(2, 0, &control(Kind::Nop, 2, 1, true));
    alone.write(3, 0, &control(Kind::Nop, 3, 1, false));
    alone.ring(false, 1);
    assert_eq!(alone.completed(), [0], "alone");
    alone.ring(false, 4);
    assert_eq!((alone.completed(), alone.fault()), (vec![1, 2], String::new()), "behind a packet");
}

#[test]
fn send_tail_that_goes_back_stops_the_queue() {
    let mut alone = Alone::new(BLOCK_BYTES as u32, Entries::new);
    (0..8).for_each(|n| {
        let nop = Control { kind: Kind::Nop, index: n, queue: 0, segments: 1, completion: false };
        alone.write(n.into(), 0, &nop.to_segment());
    });
    alone.ring(false, 8);
    assert_eq!(alone.fault(), "");
    alone.ring(false, 7);
    assert!(alone.fault().contains("behind 8"), "{}", alone.fault());
    let mut alone = Alone::new(SEGMENT_BYTES as u32, SlimEntries::new);
    let entry = Pointer { address: PACKETS - 16, len_bytes: 80, key: 1 << 24 }.to_segment();
    (0..8).for_each(|n| alone.write(n, 0, &entry));
    alone.ring(false, 8);
    assert_eq!((alone.fault().as_str(), alone.completed().len()), ("", 8));
    alone.ring(false, 6);
    assert!(alone.fault().contains("a tail of 6, behind 8"), "{}", alone.fault());
}

#[test]
fn posted_record_is_read_over_the_bus_and_never_goes_back() {
    let mut alone = Alone::new(BLOCK_BYTES as u32, Entries::new);
    let show = |alone: &Alone<Entries>, posted: u32| {
        for index in 0..posted.min(64) {
            let pointer = Pointer { address: PACKETS + u64::from(index % 8) * 2048, len_bytes: 1500, key: 0 };
            lock(&alone.memory).write(alone.receive.ring.at(index), &pointer.to_segment()).unwrap();
        }
        alone.receive.show(posted, &mut lock(&alone.memory));
    };
    let read = |alone: &Alone<Entries>| alone.port.fabric().bus().totals().data.to_nic;
    alone.arrive(1);
    assert_eq!(alone.port.receiving().totals().no_buffer, 1, "none is posted");
    assert_eq!(read(&alone), 4, "which the NIC looked for");
    show(&alone, 40);
    assert_eq!(read(&alone), 4, "it was not told");
    alone.arrive(1);
    assert_eq!(read(&alone), 4 + 4 + 32 * 16, "the record, and the first descriptors");
    alone.arrive(20);
    assert_eq!((alone.port.receiving().totals().written, alone.fault()), (20, String::new()));
    assert_eq!(read(&alone), 4 + 4 + 32 * 16, "it knows of enough");
    alone.receive.show(30, &mut lock(&alone.memory));
    alone.arrive(20);
    assert!(alone.fault().contains("a tail of 30, behind 40"), "{}", alone.fault());
}

#[test]
fn receive_register_write_is_a_fault() {
    let mut alone = Alone::new(BLOCK_BYTES as u32, Entries::new);
    alone.ring(true, 32);
    assert_eq!(alone.fault(), "queue 0: there is no such register");
}
