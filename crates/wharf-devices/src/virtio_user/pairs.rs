//! `Pairs`: the queue pairs of one connection. Each flow goes by one of them, the same while their number
//! stays; all are received from, in turn.
//!
//! A pair whose ring is full holds up the frames behind, of any pair: frames leave a batch in order.

use super::buffers::Buffers;
use super::receiving::Receiving;
use super::sending::Sending;
use super::session::{Queue, RECEIVE, TRANSMIT};
use crate::iface::TxBook;
use crate::virtio::{DriverRing, RingError};
use wharf_core::device::{Completions, Transmitted};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};
use wharf_packet::QueueMap;

#[derive(Debug)]
struct Pair<R> {
    receiving: Receiving<R>,
    sending: Sending<R>,
}

#[derive(Debug)]
pub struct Pairs<R> {
    pairs: Box<[Pair<R>]>,
    pub buffers: Buffers,
    map: QueueMap,
    /// The pair of each frame of a batch.
    ways: Vec<u16>,
    /// The pair that is served first.
    first: usize,
}

impl<R: DriverRing> Pairs<R> {
    pub fn new(queues: Vec<[Queue<R>; 2]>, buffers: Buffers, features: u64) -> Self {
        const { assert!(RECEIVE == 0 && TRANSMIT == 1) };
        let count = u16::try_from(queues.len()).unwrap_or(u16::MAX);
        let pair = |[receive, transmit]: [Queue<R>; 2]| Pair {
            receiving: Receiving::new(receive, buffers.clone(), features, count),
            sending: Sending::new(transmit, buffers.clone(), features),
        };
        Self {
            pairs: queues.into_iter().map(pair).collect(),
            map: QueueMap::new(count.into()),
            ways: Vec::with_capacity(BATCH_FRAMES_MAX),
            first: 0,
            buffers,
        }
    }

    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch, more: bool, book: &mut TxBook) -> Transmitted {
        match &mut self.pairs[..] {
            [only] => only.sending.transmit(batch, more, book),
            _ => self.spread(batch, more, book),
        }
    }

    /// Posts each frame in the pair of its flow, up to the first one for which there is no room.
    fn spread(&mut self, batch: &mut Batch, more: bool, book: &mut TxBook) -> Transmitted {
        let Self { pairs, buffers, map, ways, .. } = self;
        ways.clear();
        // A frame of another pool has no bytes here: posting it reports that.
        let way = |frame: &Frame| buffers.region.bytes(frame).map_or(0, |bytes| map.queue_of(bytes)) as u16;
        ways.extend(batch.frames().iter().map(way));
        let mut runs = ways.chunk_by(|one, other| one == other);
        let stopped = runs.any(|run| {
            let left = batch.len() - run.len();
            pairs[usize::from(run[0])].sending.post_some(batch, run.len(), book);
            batch.len() > left
        });
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    #[inline]
    pub fn flush(&mut self) -> bool {
        let mut rang = false;
        self.pairs.iter_mut().for_each(|pair| rang |= pair.sending.flush());
        rang
    }

    /// Returns true if one of them takes no more until frames have left.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.pairs.iter().any(|pair| pair.sending.is_full())
    }

    /// Gives back up to `budget` frames that have left.
    #[inline]
    pub fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), RingError> {
        let before = into.len();
        self.in_turn(|pair| pair.sending.reap(budget - (into.len() - before), into))
    }

    /// Returns the frames that have left and were not given back, of a back end that is gone.
    pub fn left(&mut self) -> impl Iterator<Item = Frame> {
        self.pairs.iter_mut().flat_map(|pair| pair.sending.left())
    }

    /// Calls `each` with one pair after the other, starting with another one each time.
    #[inline]
    fn in_turn<E>(&mut self, mut each: impl FnMut(&mut Pair<R>) -> Result<(), E>) -> Result<(), E> {
        let (before, from_first) = self.pairs.split_at_mut(self.first);
        from_first.iter_mut().chain(before).try_for_each(&mut each)?;
        self.first = if self.first + 1 < self.pairs.len() { self.first + 1 } else { 0 };
        Ok(())
    }

    /// Takes up to `budget` frames, for which `to` has room.
    #[inline]
    pub fn receive(
        &mut self, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<Result<usize, PoolError>, RingError> {
        let before = to.len();
        let mut short = None;
        self.in_turn(|pair| {
            let left = budget - (to.len() - before);
            short = pair.receiving.receive(cache, to, left)?.err().or(short.take());
            Ok(())
        })?;
        Ok(short.map_or(Ok(to.len() - before), Err))
    }

    /// Asks for notifications of arrivals, and, if `asks` says so for a pair, of completions. Returns false
    /// if something has come already, and whether that is a completion.
    pub fn arm(&mut self, asks: bool) -> (bool, bool) {
        let mut has_left = false;
        for pair in self.pairs.iter_mut().filter(|_| asks) {
            has_left |= !pair.sending.queue.ring.enable_notification_delayed();
        }
        let mut is_quiet = !has_left;
        self.pairs.iter_mut().for_each(|pair| is_quiet &= pair.receiving.queue.ring.enable_notification());
        (is_quiet, has_left)
    }

    pub fn disarm(&mut self) {
        for pair in &mut self.pairs {
            pair.receiving.queue.ring.disable_notification();
            pair.sending.queue.ring.disable_notification();
        }
    }

    /// Returns the number of frames on their way to the back end.
    pub fn sending(&self) -> usize {
        self.pairs.iter().map(|pair| pair.sending.held()).sum()
    }

    /// Returns the number of frames inside.
    pub fn held(&self) -> usize {
        self.pairs.iter().map(|pair| pair.receiving.held()).sum::<usize>() + self.sending()
    }

    /// Shows the drops of each pair.
    pub fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.pairs.iter().for_each(|pair| pair.receiving.drops.show(see));
    }

    /// Returns the back end's position in each virtqueue; it uses no more buffers.
    pub fn positions(&self) -> Vec<u32> {
        let of = |pair: &Pair<R>| [pair.receiving.queue.ring.position(), pair.sending.queue.ring.position()];
        self.pairs.iter().flat_map(of).collect()
    }

    /// Notifies a back end that goes on with the buffers of the one before it.
    pub fn tell(&mut self) {
        self.pairs.iter_mut().for_each(|pair| {
            pair.receiving.queue.tell();
            pair.sending.queue.tell();
        });
    }

    /// Returns the number of kicks sent.
    pub fn kicks(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.receiving.queue.kicks + pair.sending.queue.kicks).sum()
    }

    pub fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        for pair in &self.pairs {
            pair.receiving.visit(see);
            pair.sending.visit(see);
        }
    }

    /// Takes memory that was posted for frames in earlier queues.
    pub fn adopt(&mut self, frames: impl Iterator<Item = Frame>) {
        self.pairs[0].receiving.adopt(frames);
    }

    /// Ends the queues: hands out the memory posted for frames, and the frames to be sent, which were not.
    pub fn end(self, mut posted: impl FnMut(Frame), mut unsent: impl FnMut(Frame)) {
        for Pair { receiving, sending } in self.pairs {
            receiving.into_held().for_each(&mut posted);
            sending.into_held().for_each(&mut unsent);
        }
    }
}
