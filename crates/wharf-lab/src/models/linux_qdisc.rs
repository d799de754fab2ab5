//! The kernel's transmit path of 2014 on modelled processors: what `bulk` was measured on.
//!
//! Every processor has a transmit queue of its own, with its qdisc behind a root lock, and an interrupt vector that
//! brings its completions. A process takes the root lock, puts its packet into the qdisc and, if nobody runs that,
//! runs it: bulk dequeue under the root lock, the driver under the queue's lock, one doorbell, the root lock again.
//! Completions come in a softirq, which runs the qdisc if the byte limit had stopped it. (Linux 3.18,
//! `net/core/dev.c`, `net/sched/sch_generic.c`; facts in our own words.)
//!
//! The decisions are the real ones: [`TxEngine`](wharf_core::engine::TxEngine), `Bql`, `Fifo` and [`Owner`](wharf_core::owner::Owner),
//! one call to the device at a time. What is modelled is how long each step takes and who must wait for whom:
//! `xmit` for the way through the locks, `softirq` for completions and acknowledgements, `process` for the
//! senders, `processor` for what a processor does next.

mod costs;
pub mod far;
mod outcome;
mod process;
mod processor;
mod queue;
pub mod shared;
mod softirq;
mod xmit;

pub use costs::{Costs, Queues, Setup, Traffic};
pub use outcome::Outcome;

use far::Far;
use process::{Stock, Stream};
use processor::Processor;
use queue::{Home, TxQueue};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_core::pool::PagePool;
use wharf_sim::ConservationChecker;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness;
use wharf_sim::nic::simple::{Departed, Driver, Hardware, TxMemory};

/// Frames lie so many bytes apart: the kernel's half page, or a whole one for those that do not fit.
const FRAME_BYTES: u32 = 2048;
const LARGE_FRAME_BYTES: u32 = 4096;
/// The longest that fits into half a page, behind its headroom.
const SMALL_BYTES_MAX: u32 = 1536;

/// The modelled machine.
struct Kernel<H> {
    setup: Setup,
    processors: Vec<Processor>,
    /// Queue n is served by the interrupts of processor n.
    queues: Vec<TxQueue>,
    vectors: Vec<Vector>,
    streams: Vec<Stream>,
    nic: H,
    stock: Stock,
    witness: ConservationChecker,
    departed: Vec<Departed>,
    /// Who receives, where that is modelled.
    far: Option<Far>,
    random: Random,
    /// Packets of each stream that came home in the reap under way.
    home: Vec<u32>,
    /// Streams stop making packets, so that all can drain.
    ending: bool,
}

/// What brings interrupts to one processor.
#[derive(Debug, Default)]
struct Vector {
    last_ns: u64,
    /// Masked from an interrupt to the end of the polling that it began.
    masked: bool,
    /// Acknowledgements on their way: when they come, for which stream, of how many packets.
    acks: VecDeque<(u64, usize, u32)>,
}

/// Runs a setup over the NIC that `hardware` makes of the queues' memories; what came of it. `goes_on` is asked now and
/// then whether to go on.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was no memory, or it was not to go on.
pub fn run<H: Hardware>(
    setup: Setup, hardware: impl FnOnce(Vec<Arc<Mutex<TxMemory>>>, u32) -> H,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let frames = setup.frames();
    let apart_bytes = if setup.frame_bytes > SMALL_BYTES_MAX { LARGE_FRAME_BYTES } else { FRAME_BYTES };
    let pool = harness::pool(frames, apart_bytes, &clock)?;
    let memories: Vec<_> = (0..setup.queue_count()).map(|_| TxMemory::new(setup.ring_frames)).collect();
    let mut agenda = Agenda::new(2 * setup.cpus);
    let mut kernel = Kernel::new(setup, &pool, &clock, &memories, hardware(memories.clone(), apart_bytes))?;
    kernel.start(&mut agenda);
    let window = (kernel.setup.settle_ns, kernel.setup.measure_ns);
    let course = harness::settle_measure_drain(&mut kernel, &mut agenda, &clock, window, goes_on)?;
    kernel.check(&pool)?;
    Ok(Outcome::between(&kernel.setup, &course, kernel.witness.packets()))
}

impl<H: Hardware> Kernel<H> {
    fn new(
        setup: Setup, pool: &PagePool, clock: &Arc<VirtualClock>, memories: &[Arc<Mutex<TxMemory>>], nic: H,
    ) -> Result<Self, RunError> {
        let queues = memories.iter().map(|memory| {
            let driver = Driver::new(memory.clone());
            TxQueue::new(driver, pool, &setup, clock.clone())
        });
        let queues = queues.collect::<Result<Vec<_>, RunError>>()?;
        let processors = (0..setup.cpus).map(|cpu| Processor::new(cpu, &setup)).collect();
        let streams: Vec<_> = (0..setup.streams).map(|number| Stream::new(number, &setup)).collect();
        let window = (setup.settle_ns, setup.settle_ns + setup.measure_ns);
        Ok(Self {
            processors,
            queues,
            vectors: (0..setup.cpus).map(|_| Vector::default()).collect(),
            nic,
            stock: Stock::new(pool.cache("streams")?),
            witness: ConservationChecker::new(setup.streams, pool.frames(), window),
            departed: Vec::new(),
            far: setup.far.map(|costs| Far::new(costs, setup.cpus, setup.streams)),
            random: Random::new(setup.seed),
            home: vec![0; streams.len()],
            streams,
            setup,
            ending: false,
        })
    }

    /// Streams begin within the first microseconds, not all at once.
    fn start(&mut self, agenda: &mut Agenda) {
        for number in 0..self.streams.len() {
            let cpu = self.streams[number].cpu;
            self.processors[cpu].ready.push_back(number);
            agenda.set_no_later(cpu, self.random.below(2000));
        }
    }

    fn vector_slot(&self, cpu: usize) -> usize {
        self.setup.cpus + cpu
    }
}

impl<H: Hardware> World for Kernel<H> {
    #[inline]
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        if slot < self.setup.cpus {
            self.processor_acts(slot, now_ns, agenda);
        } else {
            self.interrupt(slot - self.setup.cpus, now_ns, agenda);
        }
    }
}
