//! The transmit path of Linux 3.18 on modelled processors: the system on which `bulk` was measured.
//!
//! Every processor has a transmit queue, with its qdisc behind a root lock, and an interrupt vector that
//! brings its completions. A process takes the root lock, puts its packet into the qdisc and, if no processor
//! runs that, runs it: bulk dequeue under the root lock, the driver under the queue's lock, one doorbell, the
//! root lock again. Completions come in a softirq, which runs the qdisc if the byte limit had stopped it.
//! (`net/core/dev.c`, `net/sched/sch_generic.c`; facts in our own words.)
//!
//! The decisions are the real ones: [`TxEngine`](wharf_core::engine::TxEngine), `Bql`, `Fifo` and
//! [`Owner`](wharf_core::owner::Owner), one call to the device at a time. Modelled are the time of each step,
//! and the waiting for locks: in `xmit` the way through the locks, in `softirq` completions and
//! acknowledgements, in `process` the choice of a processor's next work, and the senders.

mod costs;
pub mod far;
mod outcome;
mod process;
mod queue;
pub mod shared;
mod softirq;
mod state;
mod xmit;

pub use costs::{Costs, Queues, Setup, Tcp, Traffic};
pub use outcome::Outcome;

use far::FarHost;
use queue::{CompletionSink, TxQueue};
use state::{Processor, Stock, Stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_core::pool::PagePool;
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness;
use wharf_sim::nic::simple::{self, Departed, Driver, Simple, TxMemory};
use wharf_sim::{ConservationChecker, RunError};

/// Distance of frames in bytes: the kernel's half page, or a whole one for longer frames.
const FRAME_BYTES: u32 = 2048;
const LARGE_FRAME_BYTES: u32 = 4096;
/// The longest frame that fits into half a page, behind its headroom.
const SMALL_BYTES_MAX: u32 = 1536;

/// The modelled machine.
struct Kernel {
    setup: Setup,
    processors: Vec<Processor>,
    /// The interrupts of processor n serve queue n.
    queues: Vec<TxQueue>,
    vectors: Vec<Vector>,
    streams: Vec<Stream>,
    nic: Simple,
    stock: Stock,
    witness: ConservationChecker,
    departed: Vec<Departed>,
    /// The receiving host, if it is modelled.
    far: Option<FarHost>,
    random: Random,
    /// Packets of each stream that completed in the reap under way.
    home: Vec<u32>,
}

/// An interrupt vector of one processor.
#[derive(Debug, Default)]
struct Vector {
    last_ns: u64,
    /// True from an interrupt to the end of its polling.
    masked: bool,
    /// Acknowledgements in flight: time of arrival, stream, and number of packets.
    acks: VecDeque<(u64, (usize, u32))>,
}

/// Runs a setup over a NIC of these costs. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, nic: simple::Costs, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let frames = setup.frames();
    let apart_bytes = if setup.frame_bytes > SMALL_BYTES_MAX { LARGE_FRAME_BYTES } else { FRAME_BYTES };
    let pool = harness::pool(frames, apart_bytes, &clock)?;
    let memories: Vec<_> = (0..setup.queue_count()).map(|_| TxMemory::new(setup.ring_frames)).collect();
    let mut agenda = Agenda::new(2 * setup.cpus);
    let nic = Simple::new(nic, memories.clone(), apart_bytes);
    let mut kernel = Kernel::new(setup, &pool, &clock, &memories, nic)?;
    kernel.start(&mut agenda);
    let window = kernel.setup.time.window();
    let course =
        harness::settle_measure_drain(&mut kernel, &mut agenda, &clock, window, Kernel::totals, goes_on)?;
    kernel.check(&pool)?;
    Ok(Outcome::between(&kernel.setup, &course, kernel.witness.packets()))
}

impl Kernel {
    fn new(
        setup: Setup, pool: &PagePool, clock: &Arc<VirtualClock>, memories: &[Arc<Mutex<TxMemory>>],
        nic: Simple,
    ) -> Result<Self, RunError> {
        let queues = memories.iter().map(|memory| {
            let driver = Driver::new(memory.clone());
            TxQueue::new(driver, pool, &setup, clock.clone())
        });
        let queues = queues.collect::<Result<Vec<_>, RunError>>()?;
        let processors = (0..setup.cpus).map(|cpu| Processor::new(cpu, &setup)).collect();
        let streams: Vec<_> = (0..setup.streams).map(|number| Stream::new(number, &setup)).collect();
        Ok(Self {
            processors,
            queues,
            vectors: (0..setup.cpus).map(|_| Vector::default()).collect(),
            nic,
            stock: Stock::new(pool.cache("streams")?),
            witness: ConservationChecker::new(setup.streams, pool.frames(), setup.time.window()),
            departed: Vec::new(),
            far: setup.far.map(|costs| FarHost::new(costs, setup.cpus, setup.streams)),
            random: setup.time.random(),
            home: vec![0; streams.len()],
            streams,
            setup,
        })
    }

    /// Starts the streams within the first microseconds, not all at once.
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

impl World for Kernel {
    #[inline]
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        if slot < self.setup.cpus {
            self.processor_acts(slot, now_ns, agenda);
        } else {
            self.interrupt(slot - self.setup.cpus, now_ns, agenda);
        }
    }
}
