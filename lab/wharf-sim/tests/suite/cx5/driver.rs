//! The driver alone, with a NIC that contradicts itself: errors, and no frame lost.

use wharf_core::device::{Completions, Device, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_mem::{Batch, lock};
use wharf_sim::nic::NicDriver;
use wharf_sim::nic::buffers::Buffers;
use wharf_sim::nic::cx5::completion::{Completion, Opcode};
use wharf_sim::nic::cx5::compress::CompletionWriter;
use wharf_sim::nic::cx5::driver::Driver;
use wharf_sim::nic::cx5::half::{ReceiveHalf, Single};
use wharf_sim::nic::cx5::send_half::Spec;
use wharf_sim::nic::cx5::striding::{STRIDE_BYTES, Striding};
use wharf_sim::nic::host_memory::{HostMemory, SharedMemory};

const SPEC: Spec = Spec {
    log_send_blocks: 5,
    log_receive: 8,
    xdp_tx_mpwqe: true,
    inline_from: Some(128),
    completion_each: false,
};

struct Alone<R> {
    pool: PagePool,
    cache: Cache,
    memory: SharedMemory,
    driver: Driver<R>,
    sent: CompletionWriter,
    received: CompletionWriter,
    batch: Batch,
    done: Completions,
}

impl<R: ReceiveHalf> Alone<R> {
    fn new(frame_bytes: u32) -> Self {
        let pool =
            PagePool::builder().frames(512).frame_bytes(frame_bytes).huge_pages(false).build().unwrap();
        let mut cache = pool.cache("test").unwrap();
        let memory = HostMemory::shared();
        let buffers = Buffers::with_granule(pool.region(), STRIDE_BYTES, &mut lock(&memory));
        let mut driver = Driver::<R>::new(0, &SPEC, &memory, buffers).unwrap();
        driver.attach(pool.region().clone()).unwrap();
        driver.post(&mut cache);
        let queues = *driver.queues();
        Self {
            pool,
            cache,
            memory,
            driver,
            sent: CompletionWriter::new(queues.sent, None),
            received: CompletionWriter::new(queues.receive.completions, None),
            batch: Batch::new(64),
            done: Completions::new(64),
        }
    }

    /// Returns the result of receiving after `completion`; received packets return to the cache.
    fn received(&mut self, completion: Completion) -> Result<usize, String> {
        self.received.push(completion, &mut *lock(&self.memory)).unwrap();
        let result = self.driver.receive(&mut self.cache, &mut self.batch, 64);
        self.cache.give(&mut self.batch).unwrap();
        result.map_err(|error| error.to_string())
    }

    fn end(mut self) {
        self.driver.close().unwrap();
        self.driver.reap(64, false, &mut self.done).unwrap();
        self.done.failed.drain(..).for_each(|(frame, _)| self.cache.give_one(frame).unwrap());
        self.cache.give(&mut self.done.sent).unwrap();
        self.driver.unpost(&mut self.cache);
        assert_eq!(self.pool.audit().out(), 0);
    }
}

fn packet(counter: u16, byte_count: u32) -> Completion {
    Completion::new(Opcode::Received, counter, byte_count, 0)
}

#[test]
fn completion_of_unsent_entry_is_an_error() {
    let mut alone = Alone::<Single>::new(2048);
    alone.cache.take(&mut alone.batch, 5, 60).unwrap();
    assert!(alone.driver.transmit(&mut alone.batch, false).doorbell);
    let sent = |counter, opcode| Completion::new(opcode, counter, 0, 0);
    for lie in [sent(1, Opcode::Sent), sent(31, Opcode::Sent), sent(u16::MAX, Opcode::SendError)] {
        alone.sent.push(lie, &mut *lock(&alone.memory)).unwrap();
        let error = alone.driver.reap(64, false, &mut alone.done).unwrap_err().to_string();
        assert!(error.contains("not outstanding"), "{error}");
        assert_eq!((alone.done.len(), alone.driver.outstanding()), (0, 5));
    }
    // A good completion for all five; the same again is one too many.
    for good in [true, false] {
        alone.sent.push(sent(0, Opcode::Sent), &mut *lock(&alone.memory)).unwrap();
        assert_eq!(alone.driver.reap(64, false, &mut alone.done).is_ok(), good);
        assert_eq!(alone.done.len(), 5);
    }
    alone.end();
}

#[test]
fn buffers_complete_once_with_a_valid_length() {
    let mut alone = Alone::<Single>::new(2048);
    assert_eq!(alone.received(packet(0, 60)), Ok(1));
    let again = alone.received(packet(0, 60)).unwrap_err();
    assert_eq!(again, "cx5:0: completion of slot 0, which holds no frame (ring of 256)");
    for (counter, byte_count) in [(1, 0), (2, 4096), (3, u32::MAX)] {
        assert!(alone.received(packet(counter, byte_count)).unwrap_err().contains("bytes"), "{byte_count}");
    }
    let failed = Completion::new(Opcode::ReceiveError, 4, 60, 0);
    assert!(alone.received(failed).unwrap_err().contains("ReceiveError"));
    // Out of order, many times round: places stay taken, and no frame is dropped in posting.
    for n in 0..2000u16 {
        let _ = alone.received(packet(n.wrapping_mul(37), 60));
    }
    alone.end();
}

#[test]
fn strides_are_taken_once_in_order() {
    let mut alone = Alone::<Striding>::new(16384);
    let at = |entry, first, strides: u32, len_bytes: u32| Completion {
        entry,
        ..packet(first, strides << 16 | len_bytes)
    };
    assert_eq!(alone.received(at(0, 0, 1, 60)), Ok(1));
    let lies = [
        at(0, 0, 1, 60),      // taken already
        at(0, 2, 1, 60),      // leaves one out
        at(0, 1, 1, 300),     // does not fit one stride
        at(0, 1, 63, 300),    // beyond the buffer
        at(0, 1, 0x7fff, 60), // far beyond
        at(0, 1, 1, 0),       // nothing: takes its stride all the same
    ];
    for lie in lies {
        assert!(alone.received(lie).unwrap_err().contains("bytes"), "{lie:?}");
    }
    assert_eq!(alone.received(at(0, 2, 60, 1514)), Ok(1), "the last, with what is left");
    let gone = alone.received(at(0, 2, 1, 60)).unwrap_err();
    assert!(gone.contains("which holds no frame"), "{gone}");
    for n in 0..2000u16 {
        let _ = alone.received(at(n % 5, n.wrapping_mul(7) % 62, 1 + u32::from(n % 7), u32::from(n)));
    }
    alone.end();
}
