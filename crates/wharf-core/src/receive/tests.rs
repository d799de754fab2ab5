use super::*;
use crate::copy::Placer;
use crate::device::{Capabilities, Completions, Transmitted};
use std::sync::Arc;
use wharf_mem::{Batch, Frame, Meta, Region};

/// A packet of so many buffers has come, and nothing tells of it any more.
struct Long {
    pieces: usize,
    placer: Placer,
}

impl Device for Long {
    fn name(&self) -> String {
        "long".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn transmit(&mut self, _batch: &mut Batch, _more: bool) -> Transmitted {
        Transmitted { doorbell: false, stopped: true }
    }

    fn flush(&mut self) -> bool {
        false
    }

    fn reap(&mut self, _budget: usize, _into: &mut Completions) -> Result<(), DeviceError> {
        Ok(())
    }

    fn outstanding(&self) -> usize {
        0
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}

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

    fn receive_ended(&self) -> bool {
        false
    }
}

#[test]
fn what_has_come_and_lacks_memory_is_looked_at_again_though_nothing_tells() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let device = Box::new(Long { pieces: 12, placer: Placer::default() });
    let receiver = RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap();
    let (mut others, mut held) = (pool.cache("others").unwrap(), Batch::new(8));
    others.take(&mut held, 8, 64).unwrap();
    for _ in 0..3 {
        let found = receiver.shared.poll(Notice::Keep, false, 64);
        assert_eq!((found.received, found.waiting), (0, true), "there is memory, and not enough");
    }
    others.give(&mut held).unwrap();
    drop(others);
    assert_eq!(receiver.shared.poll(Notice::Keep, false, 64).received, 1);
    let found = receiver.shared.poll(Notice::Keep, false, 64);
    assert_eq!((found.received, found.waiting), (0, false), "nothing has come");
}

/// A receiver waits for memory in turn with all others, and keeps what it gets until it is enough.
#[test]
fn a_receiver_short_of_memory_stands_in_line() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let device = Box::new(Long { pieces: 3, placer: Placer::default() });
    let receiver = RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap();
    let mut late = pool.cache("late").unwrap();
    let mut held: Vec<_> = (0..16).map(|_| pool.packet(64).unwrap()).collect();
    let mut free_one = || drop(held.pop());
    let received = || receiver.shared.poll(Notice::Keep, false, 64).received;
    assert_eq!(received(), 0);
    let place = late.stand_in_line(Arc::new(ComesBack));
    free_one();
    assert_eq!((received(), place.before()), (0, Some(0)), "it came first, and has one of three");
    free_one();
    assert_eq!(place.before(), None, "the next is for who came next");
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

#[test]
fn of_two_receivers_of_long_packets_one_at_a_time_keeps_parts() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let receivers = [(); 2].map(|()| {
        let device = Box::new(Long { pieces: 12, placer: Placer::default() });
        RxQueue::new(device, &pool, &[], Box::new(|_| Rest::Free)).unwrap()
    });
    let (mut others, mut held, mut given) = (pool.cache("others").unwrap(), Batch::new(16), Batch::new(16));
    while others.take(&mut held, 1, 64).is_ok() {}
    assert_eq!(held.len(), 16);
    let mut received = 0;
    // Memory comes two by two: each receiver has a part of it in turn.
    for _ in 0..100 {
        std::iter::from_fn(|| held.pop()).take(2).for_each(|frame| given.push(frame).unwrap());
        others.give(&mut given).unwrap();
        let polls = receivers.iter().map(|one| one.shared.poll(Notice::Keep, false, 64).received);
        received += polls.sum::<u32>();
    }
    assert_eq!(received, 2);
}
