//! A driver and its NIC, with a script between them that writes to memory and to registers: any bytes lead to
//! errors and an end, and no frame is lost. Shared by the tests and the fuzz target.

use std::collections::VecDeque;
use wharf_core::device::Completions;
use wharf_core::pool::{Cache, PagePool};
use wharf_mem::{Batch, lock};
use wharf_plan::pcie::BusSpec;
use wharf_sim::engine::Random;
use wharf_sim::nic::NicDriver;
use wharf_sim::nic::buffers::Buffers;
use wharf_sim::nic::cx5::compress::{CompletionWriter, Compress};
use wharf_sim::nic::cx5::driver::Driver;
use wharf_sim::nic::cx5::formats::{Descriptors, Entries};
use wharf_sim::nic::cx5::half::{self, Single};
use wharf_sim::nic::cx5::send_half::Spec;
use wharf_sim::nic::cx5::slim::{Slim, SlimEntries};
use wharf_sim::nic::cx5::striding::{self, STRIDE_BYTES, Strides, Striding};
use wharf_sim::nic::host_memory::{Doorbell, HostMemory, SharedMemory};
use wharf_sim::nic::port::{Arrivals, Port, PortCosts};
use wharf_sim::nic::receive::{ReceiveCosts, ReceiveFormat};
use wharf_sim::nic::send::{SendCosts, SendFormat};

/// The lowest address.
const BASE: u64 = 0x1000;
/// Far more than all rings and packets of a script need.
const STEPS_MAX: usize = 200_000;

/// Bytes that determine the events; no events once they have run out.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes([self.byte()?, self.byte()?, self.byte()?, self.byte()?]))
    }
}

struct Rig<D, S, R> {
    driver: D,
    port: Port<S, R>,
    memory: SharedMemory,
    pool: PagePool,
    cache: Cache,
    batch: Batch,
    done: Completions,
    now_ps: u64,
    seen: Seen,
}

/// The result of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Packets that came back as sent.
    pub sent: usize,
    /// Packets that the driver received.
    pub received: usize,
    /// Errors of the driver.
    pub lies: usize,
    /// True if the NIC stopped a queue.
    pub fault: bool,
}

/// Creates a pool, memory and buffers in both.
fn place(frame_bytes: u32, granule_bytes: u32) -> (PagePool, SharedMemory, Buffers) {
    let pool = PagePool::builder().frames(256).frame_bytes(frame_bytes).huge_pages(false).build().unwrap();
    let memory = HostMemory::shared();
    let buffers = Buffers::with_granule(pool.region(), granule_bytes, &mut lock(&memory));
    (pool, memory, buffers)
}

impl<D: NicDriver, S: SendFormat, R: ReceiveFormat> Rig<D, S, R> {
    fn new(
        (pool, memory, buffers): (PagePool, SharedMemory, Buffers), mut driver: D,
        send: (wharf_sim::nic::ring::Ring, S), receive: (wharf_sim::nic::ring::Ring, R),
    ) -> Self {
        let send_costs = SendCosts {
            entry_ps: 1000,
            fetch_bytes: 128,
            fetches: 3,
            wire_ps_per_byte: 80,
            wire_overhead_bytes: 20,
            ahead_ps: 100_000,
        };
        let costs = PortCosts {
            bus: BusSpec { link: "gen1x1".parse().unwrap(), tags: 3, latency_ps: 600_000 },
            send: send_costs,
            receive: ReceiveCosts {
                buffer_bytes: 5000,
                fetch_bytes: 128,
                keep_ps: 1_000_000,
                posted_packets: 3,
            },
        };
        let mut arrivals = Arrivals::at_wire_rate(vec![(64, 3), (1500, 1)], 1, 80, 20, Random::new(1));
        arrivals.end();
        let port = Port::new(&costs, memory.clone(), buffers, vec![send], vec![receive], arrivals);
        let mut cache = pool.cache("hostile").unwrap();
        driver.attach(pool.region().clone()).unwrap();
        driver.post(&mut cache);
        let (batch, done) = (Batch::new(64), Completions::new(64));
        Self { driver, port, memory, pool, cache, batch, done, now_ps: 0, seen: Seen::default() }
    }

    fn ring(&mut self) {
        let mut bells = std::mem::take(&mut lock(&self.memory).doorbells);
        self.port.ring(self.now_ps, &mut bells);
    }

    /// Handles an event. True if there was one.
    fn step(&mut self) -> bool {
        let due_ps = self.port.due_ps();
        if due_ps == u64::MAX {
            return false;
        }
        self.now_ps = self.now_ps.max(due_ps);
        self.port.step(self.now_ps).is_ok()
    }

    fn reap(&mut self) {
        self.seen.lies += usize::from(self.driver.reap(64, false, &mut self.done).is_err());
        self.seen.sent += self.done.sent.len();
        self.cache.give(&mut self.done.sent).unwrap();
        for (frame, _) in self.done.failed.drain(..) {
            self.cache.give_one(frame).unwrap();
        }
    }

    fn receive(&mut self) {
        let received = self.driver.receive(&mut self.cache, &mut self.batch, 64);
        self.seen.lies += usize::from(received.is_err());
        self.seen.received += self.batch.len();
        self.cache.give(&mut self.batch).unwrap();
    }

    fn play(&mut self, script: &mut Script<'_>) -> Option<()> {
        loop {
            let what = script.byte()?;
            match what % 8 {
                0 => {
                    let count = usize::from(script.byte()? % 32) + 1;
                    let _ = self.cache.take(&mut self.batch, count, 60 + u32::from(what));
                    self.driver.transmit(&mut self.batch, what & 8 != 0);
                    self.cache.give(&mut self.batch).unwrap();
                }
                1 => self.reap(),
                2 => self.receive(),
                3 => {
                    for _ in 0..script.byte()? % 32 {
                        self.port.arrivals.next_ps = self.now_ps;
                        self.step();
                        self.port.arrivals.end();
                    }
                }
                4 => {
                    let address = BASE + u64::from(script.word()? & 0xffff);
                    for at in address..address + u64::from(what >> 3) {
                        let _ = lock(&self.memory).write(at, &[script.byte()?]);
                    }
                }
                5 => {
                    let (queue, word) = (usize::from(what == 0xfd), script.word()?);
                    let value = [word & 0x7f, (word & 0x7f) << 16, (word & 0x7f) << 7, word]
                        [usize::from(what >> 4 & 3)];
                    let doorbell = Doorbell { queue, receive: what & 8 != 0, value, len_bytes: 4 };
                    self.port.ring(self.now_ps, &mut VecDeque::from([doorbell]));
                }
                _ => {
                    let _ = (0..script.byte()?).all(|_| self.step());
                }
            }
            self.ring();
        }
    }

    /// Drains everything, and checks that every frame returns.
    fn end(mut self) -> Seen {
        let steps = (0..STEPS_MAX).take_while(|_| self.step()).count();
        assert!(steps < STEPS_MAX, "it goes on for ever");
        let totals = *self.port.receiving().totals();
        assert!(totals.offered >= totals.written + totals.overrun + totals.no_buffer, "{totals:?}");
        self.seen.fault = self.port.fault().is_some();
        self.driver.close().unwrap();
        for _ in 0..STEPS_MAX {
            if self.driver.outstanding() == 0 {
                break;
            }
            self.reap();
        }
        assert_eq!(self.driver.outstanding(), 0);
        self.driver.unpost(&mut self.cache);
        assert_eq!(self.pool.audit().out(), 0, "{}", self.pool.audit());
        self.seen
    }

    fn go(mut self, mut script: Script<'_>) -> Seen {
        self.ring();
        self.play(&mut script);
        self.end()
    }
}

fn cx5_spec(multi: bool) -> Spec {
    Spec {
        log_send_blocks: 6,
        log_receive: 6,
        xdp_tx_mpwqe: multi,
        inline_from: multi.then_some(8),
        completion_each: false,
    }
}

fn single(script: Script<'_>, multi: bool) -> Seen {
    let at = place(2048, 2048);
    let driver = Driver::<Single>::new(0, &cx5_spec(multi), &at.1, at.2).unwrap();
    let queues = *driver.queues();
    let compress = multi.then_some(Compress { selected: half::SELECTED, session_max: 64 });
    let received = CompletionWriter::new(queues.receive.completions, compress);
    let receives = Descriptors::new(received, 0, queues.receive.record);
    let sends = Entries::new(CompletionWriter::new(queues.sent, None), 0);
    Rig::new(at, driver, (queues.send, sends), (queues.receive.ring, receives)).go(script)
}

fn strides(script: Script<'_>) -> Seen {
    let at = place(4096, STRIDE_BYTES);
    let driver = Driver::<Striding>::new(0, &cx5_spec(true), &at.1, at.2).unwrap();
    let queues = *driver.queues();
    let compress = Some(Compress { selected: striding::SELECTED, session_max: 64 });
    let received = CompletionWriter::new(queues.receive.completions, compress);
    let receives = Strides::new(received, 0, queues.receive.record);
    let sends = Entries::new(CompletionWriter::new(queues.sent, None), 0);
    Rig::new(at, driver, (queues.send, sends), (queues.receive.ring, receives)).go(script)
}

fn slim(script: Script<'_>) -> Seen {
    let at = place(2048, 2048);
    let driver = Driver::<Single<16>, Slim>::new(0, &cx5_spec(false), &at.1, at.2).unwrap();
    let queues = *driver.queues();
    let received = CompletionWriter::new(queues.receive.completions, None);
    let receives = Descriptors::new(received, 0, queues.receive.record);
    let sends = SlimEntries::new(CompletionWriter::new(queues.sent, None), 0);
    Rig::new(at, driver, (queues.send, sends), (queues.receive.ring, receives)).go(script)
}

/// Plays `bytes`: the first selects the NIC.
pub fn play(bytes: &[u8]) -> Seen {
    let mut script = Script(bytes);
    match script.byte().map(|which| which % 4) {
        Some(0) => single(script, false),
        Some(1) => single(script, true),
        Some(2) => strides(script),
        Some(3) => slim(script),
        _ => Seen::default(),
    }
}
