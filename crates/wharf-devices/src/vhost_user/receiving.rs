//! `Receiving`: frames out of the driver's transmit buffers.

mod reader;

use super::link::Link;
use super::vring::{Running, with_ring};
use crate::virtio::DeviceRing;
use reader::{Came, Reader};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::Batch;

/// Buffers of a virtqueue that is switched off which are used at a time: the protocol wants its frames discarded.
const DISCARDED_AT_A_TIME: usize = 256;

#[derive(Default)]
pub(super) struct Receiving {
    reader: Reader,
    /// The pair that is looked at first.
    first: usize,
}

/// What became of a turn at one virtqueue.
enum Ended {
    /// There is no more there, or no more is wanted.
    Empty,
    /// There is no memory.
    NoMemory,
}

impl Receiving {
    pub(super) fn receive(
        &mut self, link: &Link, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, PoolError> {
        let (before, pairs) = (to.len(), link.pairs());
        let budget = budget.min(to.room());
        for turn in 0..pairs {
            let left = budget - (to.len() - before);
            if left == 0 {
                break;
            }
            let pair = (self.first + turn) % pairs;
            if let Ended::NoMemory = self.turn(link, pair, cache, to, left)? {
                break;
            }
        }
        self.first = if self.first + 1 >= pairs { 0 } else { self.first + 1 };
        Ok(to.len() - before)
    }

    /// Receives up to `budget` frames of one pair.
    fn turn(
        &mut self, link: &Link, pair: usize, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<Ended, PoolError> {
        let index = 2 * pair + 1;
        let Some(mut vring) = link.vring(index) else { return Ok(Ended::Empty) };
        let is_on = vring.is_enabled;
        let Some(Running { ring, memory, agreed, chain }) = vring.running() else { return Ok(Ended::Empty) };
        let (mut ended, mut broken) = (Ok(Ended::Empty), None);
        with_ring!(ring, ring => {
            let mut left = if is_on { budget } else { DISCARDED_AT_A_TIME };
            while left > 0 {
                match ring.pop(memory, chain) {
                    Ok(true) => left -= 1,
                    Ok(false) => break,
                    Err(error) => {
                        broken = Some(error);
                        break;
                    }
                }
                match if is_on { self.reader.read(memory, *agreed, chain, cache, to) } else { Ok(Came::Dropped) } {
                    Ok(Came::Received | Came::Dropped) => ring.put_used(chain.token(), 0),
                    other => {
                        ring.unpop(chain.token());
                        ended = other.map(|_| Ended::NoMemory);
                        break;
                    }
                }
            }
        });
        self.reader.settle(cache)?;
        let used = with_ring!(ring, ring => ring.publish() && ring.wants_call());
        let is_lost = memory.is_broken();
        if let Some(call) = vring.call.as_ref().filter(|_| used) {
            call.signal();
        }
        if is_lost {
            link.lost_memory();
        } else if let Some(error) = broken {
            vring.fail();
            drop(vring);
            link.broken(index, &error);
        }
        ended
    }

    pub(super) fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.reader.drops(see);
    }

    /// Asks to be told of frames; false when there are some already.
    pub(super) fn arm(&self, link: &Link) -> bool {
        let mut nothing_came = true;
        for pair in 0..link.pairs() {
            let Some(mut vring) = link.vring(2 * pair + 1) else { continue };
            if let Some(Running { ring, .. }) = vring.running() {
                nothing_came &= with_ring!(ring, ring => ring.enable());
            }
        }
        nothing_came
    }

    pub(super) fn disarm(&self, link: &Link) {
        for pair in 0..link.pairs() {
            let Some(mut vring) = link.vring(2 * pair + 1) else { continue };
            if let Some(Running { ring, .. }) = vring.running() {
                with_ring!(ring, ring => ring.disable());
            }
        }
    }
}
