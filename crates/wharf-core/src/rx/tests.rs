use super::state::ComesBack;
use super::*;
use crate::device::{Device, Notify};
use crate::poller::poll_target::PollTarget;
use crate::poller::schedule::IrqChange;
use crate::pool::{Burst, Cache};
use crate::sg_writer::SgWriter;
use std::sync::{Arc, OnceLock};
use wharf_mem::{Batch, Frame, Meta, Region};

/// A device with one packet of several buffers, and no further notification.
#[derive(Default)]
pub(crate) struct Long {
    pieces: usize,
    placer: SgWriter,
}

impl Notify for Long {}

impl Device for Long {
    fn name(&self) -> String {
        "long".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Long {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, _budget: usize) -> Result<usize, DeviceError> {
        let bytes = vec![7; self.pieces * cache.pool().region().data_bytes_max() as usize];
        if bytes.is_empty() {
            return Ok(0);
        }
        let before = to.len();
        let chunks = std::iter::once(&bytes[..]);
        self.placer.place(cache, to, chunks, bytes.len() as u32, &Meta::default()).unwrap();
        if to.len() > before {
            self.pieces = 0;
        }
        Ok(to.len() - before)
    }

    fn ended(&self) -> bool {
        false
    }
}

#[test]
fn arrivals_without_memory_are_polled_again_without_notification() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let device = Box::new(Long { pieces: 12, placer: SgWriter::default() });
    let receiver = RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap().takes_chains(true);
    let (mut others, mut held) = (pool.cache("others").unwrap(), Batch::new(8));
    others.take(&mut held, 8, 64).unwrap();
    for _ in 0..3 {
        let found = receiver.shared.poll(IrqChange::Keep, false, 64);
        assert_eq!((found.received, found.waiting), (0, true), "there is memory, and not enough");
    }
    others.give(&mut held).unwrap();
    drop(others);
    assert_eq!(receiver.shared.poll(IrqChange::Keep, false, 64).received, 1);
    let found = receiver.shared.poll(IrqChange::Keep, false, 64);
    assert_eq!((found.received, found.waiting), (0, false), "nothing has come");
}

/// A device whose last packet comes with an error, and ends it.
struct Last(Long);

impl Notify for Last {}

impl Device for Last {
    fn name(&self) -> String {
        "last".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Last {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.0.receive(cache, to, budget)?;
        Err(DeviceError::Unsupported { device: self.name(), what: "it has ended".into() })
    }

    fn ended(&self) -> bool {
        true
    }
}

/// The handler's inbox is full at first.
#[test]
fn device_that_ends_then_the_queue_has_ended_once_its_last_packet_is_taken() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let device = Box::new(Last(Long { pieces: 1, placer: SgWriter::default() }));
    let known = Arc::new(OnceLock::<RxQueue>::new());
    let (seen, mut shown) = (known.clone(), 0);
    let handler = move |_: &mut Burst| {
        assert!(!seen.get().unwrap().has_ended());
        shown += 1;
        if shown < 4 { Rest::Again } else { Rest::Free }
    };
    let receiver = RxQueue::new(device, &pool, &[], Box::new(handler)).unwrap();
    known.set(receiver.clone()).unwrap();
    let mut polls = 1;
    while !receiver.shared.poll(IrqChange::Keep, false, 64).over {
        assert!(!receiver.has_ended());
        polls += 1;
    }
    assert!(receiver.has_ended() && polls <= 4, "{polls}");
}

/// A receiver waits for memory in turn, and keeps buffers until they are enough.
#[test]
fn receiver_short_of_memory_joins_the_wait_list() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let device = Box::new(Long { pieces: 3, placer: SgWriter::default() });
    let receiver = RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap().takes_chains(true);
    let mut late = pool.cache("late").unwrap();
    let mut held: Vec<_> = (0..16).map(|_| pool.packet(64).unwrap()).collect();
    let mut free_one = || drop(held.pop());
    let received = || receiver.shared.poll(IrqChange::Keep, false, 64).received;
    assert_eq!(received(), 0);
    let place = late.join_wait_list(Arc::new(ComesBack));
    free_one();
    assert_eq!((received(), place.before()), (0, Some(0)), "it came first, and has one of three");
    free_one();
    assert_eq!(place.before(), None, "the next frame is the next waiter's");
    free_one();
    assert_eq!(received(), 0);
    free_one();
    assert_eq!(received(), 1);
    place.leave(false);
    drop((late, held));
    receiver.close().unwrap();
    drop(receiver);
    assert_eq!(pool.free(), 16);
}

/// Two receivers of a packet of 12 buffers each. Buffers come two by two, to each in turn; a rival always waits too,
/// and frees its buffers at once. The first receiver leaves by `goes` once it has some. Returns true if the second
/// one receives.
fn second_receives(goes: impl Fn(&RxQueue)) -> bool {
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let [first, second] = [(); 2].map(|()| {
        let device = Box::new(Long { pieces: 12, placer: SgWriter::default() });
        RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap().takes_chains(true)
    });
    let (mut others, mut held, mut given) = (pool.cache("others").unwrap(), Batch::new(64), Batch::new(64));
    while others.take(&mut held, 1, 64).is_ok() {}
    let mut rival = pool.cache("rival").unwrap();
    let mut free_two = |held: &mut Batch| {
        std::iter::from_fn(|| held.pop()).take(2).for_each(|frame| given.push(frame).unwrap());
        others.give(&mut given).unwrap();
    };
    goes(&first);
    let mut place = rival.join_wait_list(Arc::new(ComesBack));
    (0..2000).any(|_| {
        free_two(&mut held);
        if place.before().is_none() {
            std::mem::replace(&mut place, rival.join_wait_list(Arc::new(ComesBack))).leave(true);
            let mut rivals = Batch::new(64);
            let _ = rival.take(&mut rivals, 64, 64);
            std::iter::from_fn(|| rivals.pop()).for_each(|frame| held.push(frame).unwrap());
        }
        second.shared.poll(IrqChange::Keep, false, 64).received > 0
    })
}

#[test]
fn receiver_without_its_poller_lets_others_gather() {
    let goes = |first: &RxQueue| {
        assert_eq!(first.shared.poll(IrqChange::Keep, false, 64).received, 0, "short of memory");
        first.shared.step_aside();
    };
    assert!(second_receives(goes));
}

#[test]
fn receiver_with_panicking_handler_lets_others_gather() {
    let goes = |first: &RxQueue| {
        assert_eq!(first.shared.poll(IrqChange::Keep, false, 64).received, 0, "short of memory");
        let mut state = first.shared.state.lock().unwrap();
        let panicking = std::panic::AssertUnwindSafe(move || {
            let _held = &mut state;
            panic!("the handler's");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert!(first.shared.poll(IrqChange::Keep, false, 64).over);
    };
    assert!(second_receives(goes));
}

#[test]
fn two_receivers_of_long_packets_gather_one_at_a_time() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let receivers = [(); 2].map(|()| {
        let device = Box::new(Long { pieces: 12, placer: SgWriter::default() });
        RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap().takes_chains(true)
    });
    let (mut others, mut held, mut given) = (pool.cache("others").unwrap(), Batch::new(16), Batch::new(16));
    while others.take(&mut held, 1, 64).is_ok() {}
    assert_eq!(held.len(), 16);
    let mut received = 0;
    // Buffers come two by two: each receiver gets a part in turn.
    for _ in 0..100 {
        std::iter::from_fn(|| held.pop()).take(2).for_each(|frame| given.push(frame).unwrap());
        others.give(&mut given).unwrap();
        let polls = receivers.iter().map(|one| one.shared.poll(IrqChange::Keep, false, 64).received);
        received += polls.sum::<u32>();
    }
    assert_eq!(received, 2);
}

/// A device with a packet in two buffers, as an adapter with short ones has it.
#[derive(Default)]
struct Split {
    lens: Vec<(u32, u32)>,
}

impl Notify for Split {}

impl Device for Split {
    fn name(&self) -> String {
        "split".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Split {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let region = cache.pool().region().clone();
        let mut count = 0;
        for (first, second) in self.lens.drain(..self.lens.len().min(budget)) {
            let mut parts = Batch::new(2);
            cache.take(&mut parts, 1, first).unwrap();
            cache.take(&mut parts, 1, second).unwrap();
            let (mut head, mut tail) = (parts.pop().unwrap(), parts.pop().unwrap());
            region.bytes_mut(&mut head).unwrap().fill(1);
            region.bytes_mut(&mut tail).unwrap().fill(2);
            region.link(&mut head, tail).map_err(|(error, _)| error).unwrap();
            to.push(head).unwrap();
            count += 1;
        }
        Ok(count)
    }

    fn ended(&self) -> bool {
        false
    }
}

#[test]
fn packet_in_two_buffers_that_fits_one_frame_comes_in_one() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let lens = vec![(1024, 490), (1024, 512), (1024, 513), (1536, 1), (1, 1)];
    let (seen, mine) = std::sync::mpsc::channel();
    let handler = move |burst: &mut crate::pool::Burst| {
        burst.iter().for_each(|bytes| seen.send(bytes.to_vec()).unwrap());
        Rest::Free
    };
    let receiver = RxQueue::new(Box::new(Split { lens }), &pool, &[], Box::new(handler)).unwrap();
    receiver.shared.poll(IrqChange::Keep, false, 64);
    let whole = |first: usize, second: usize| [vec![1; first], vec![2; second]].concat();
    let came: Vec<_> = mine.try_iter().collect();
    assert_eq!(came, [whole(1024, 490), whole(1024, 512), whole(1, 1)]);
    let mut drops = Vec::new();
    receiver.drops(&mut |reason, count| drops.push((reason, count)));
    assert_eq!((receiver.received(), drops), (3, vec![(TOO_LONG, 2)]));
    assert_eq!(receiver.received_bytes(), 1514 + 1536 + 2);
    receiver.close().unwrap();
    drop(receiver);
    assert_eq!(pool.audit().out(), 0);
}
