//! `Receiving`: frames out of the driver's transmit buffers.

mod reader;

use super::NOT_ENABLED;
use super::link::Link;
use super::vring::{Agreed, DESCRIPTORS_AT_A_TIME, Ring, Running, with_ring};
use crate::virtio::{Chain, DeviceRing, Memory, RingError};
use reader::Reader;
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::Batch;

/// Buffers of a virtqueue that was switched off that are used at a time: the protocol wants its frames
/// discarded. Not at once: some front ends pause a machine by switching off.
const DISCARDED_AT_A_TIME: usize = 256;

#[derive(Default)]
pub(super) struct Receiving {
    reader: Reader,
    /// Frames that were discarded.
    discarded: u64,
    /// The pair that is served first.
    first: usize,
    /// Time until frames of a virtqueue that was switched off are discarded, ns, at the last reception.
    kept_ns: u64,
}

impl Receiving {
    pub(super) fn receive(
        &mut self, link: &Link, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, PoolError> {
        let (before, pairs) = (to.len(), link.pairs());
        self.kept_ns = u64::MAX;
        let budget = budget.min(to.room());
        if budget > 0
            && let Some(mac) = link.announcing.take()
            && !announce(mac, cache, to)?
        {
            link.announcing.again(mac);
        }
        for turn in 0..pairs {
            let left = budget - (to.len() - before);
            if left == 0 {
                break;
            }
            let pair = (self.first + turn) % pairs;
            if !self.turn(link, pair, cache, to, left)? {
                break;
            }
        }
        self.first = if self.first + 1 >= pairs { 0 } else { self.first + 1 };
        Ok(to.len() - before)
    }

    /// Receives up to `budget` frames of one pair. Returns false without memory.
    fn turn(
        &mut self, link: &Link, pair: usize, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<bool, PoolError> {
        let index = 2 * pair + 1;
        let Some(mut vring) = link.vring(index) else { return Ok(true) };
        let is_on = vring.is_enabled;
        if let Some(left) = vring.keeps_for() {
            self.kept_ns = self.kept_ns.min(left.as_nanos() as u64);
            return Ok(true);
        }
        let Some((running, call)) = vring.serving() else { return Ok(true) };
        let Running { ring, memory, agreed, chains, .. } = running;
        let agreed = is_on.then_some(*agreed);
        let (has_memory, broken) =
            with_ring!(ring, ring => self.walk(ring, memory, agreed, chains, cache, to, budget));
        self.reader.settle(cache)?;
        let has_used = with_ring!(ring, ring => ring.publish());
        let is_lost = running.is_broken();
        running.note_written();
        if has_used && running.tell(call) {
            link.note_call(index);
        }
        if is_lost {
            link.lost_memory();
        } else if let Some(error) = broken {
            vring.fail();
            drop(vring);
            link.broken(index, &error);
            link.changed();
        }
        has_memory
    }

    /// Reads up to `budget` frames, or discards them if nothing was `agreed` upon. Returns false without memory, and the
    /// error of the ring, if there is one.
    #[allow(clippy::too_many_arguments)]
    fn walk(
        &mut self, ring: &mut impl DeviceRing, memory: &Memory, agreed: Option<Agreed>, chains: &mut [Chain],
        cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> (Result<bool, PoolError>, Option<RingError>) {
        let mut left = if agreed.is_some() { budget } else { DISCARDED_AT_A_TIME };
        let (mut broken, mut descriptors) = (None, DESCRIPTORS_AT_A_TIME);
        while left > 0 && descriptors > 0 && broken.is_none() {
            let most = chains.len().min(left);
            let count = match pop_ahead(ring, memory, agreed, &mut chains[..most], &mut descriptors) {
                (0, None) => break,
                (count, error) => {
                    broken = error;
                    count
                }
            };
            left -= count;
            let (read, result) = match agreed {
                Some(agreed) => self.reader.read_all(memory, agreed, &chains[..count], cache, to),
                None => {
                    self.discarded += count as u64;
                    (count, Ok(()))
                }
            };
            ring.put_all_used(&chains[..read]);
            if read < count {
                chains[read..count].iter().rev().for_each(|chain| ring.undo_pop(chain.token()));
                return (result.map(|()| false), broken);
            }
        }
        (Ok(true), broken)
    }

    pub(super) fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.reader.drops.show(see);
        if self.discarded > 0 {
            see(NOT_ENABLED, self.discarded);
        }
    }

    /// Asks for notifications of frames. Returns false if there are some already.
    pub(super) fn arm(&self, link: &Link) -> bool {
        let mut nothing_came = true;
        for mut vring in link.vrings().skip(1).step_by(2) {
            nothing_came &= !vring.is_mute();
            let is_kept = vring.keeps_for().is_some();
            if let Some((running, _)) = vring.serving() {
                let ask = |ring: &mut Ring| with_ring!(ring, ring => ring.enable_notification());
                nothing_came &= running.write(ask) || is_kept;
            }
        }
        nothing_came
    }

    /// Returns the time until frames that are kept are discarded, ns, if there are any.
    pub(super) fn next_arrival_ns(&self) -> Option<u64> {
        (1..u64::MAX).contains(&self.kept_ns).then_some(self.kept_ns)
    }

    pub(super) fn disarm(&self, link: &Link) {
        link.each_running(1, |ring| with_ring!(ring, ring => ring.disable_notification()));
    }
}

/// Adds the frame by which switches learn where a machine is that was migrated, in its name: a reverse ARP
/// request (RFC 903) to all. Returns false without memory.
#[cold]
fn announce(mac: [u8; 6], cache: &mut Cache, to: &mut Batch) -> Result<bool, PoolError> {
    const HEAD: [u8; 10] = [0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3];
    let frame = [&[0xff; 6][..], &mac, &HEAD, &mac, &[0; 4], &mac, &[0; 22]].concat();
    let before = to.len();
    match cache.take(to, 1, frame.len() as u32) {
        Ok(_) | Err(PoolError::Exhausted { .. }) => {}
        Err(error) => return Err(error),
    }
    for place in &mut to.frames_mut()[before..] {
        cache.pool().region().bytes_mut(place)?.copy_from_slice(&frame);
    }
    to.refresh();
    Ok(to.len() > before)
}

/// Pops as many buffers as there are chains for, of as many descriptors as are `left`, and prefetches their data. Returns their number, and the
/// error of the ring behind them, if there is one.
#[inline(always)]
fn pop_ahead(
    ring: &mut impl DeviceRing, memory: &Memory, agreed: Option<Agreed>, chains: &mut [Chain], left: &mut u32,
) -> (usize, Option<RingError>) {
    let mut count = 0;
    let broken = loop {
        count += ring.pop_plain(memory, &mut chains[count..]);
        let Some(chain) = chains.get_mut(count) else { break None };
        match ring.pop(memory, chain) {
            Ok(true) => {
                (*left, count) = (left.saturating_sub(chain.descriptors()), count + 1);
                if *left == 0 {
                    break None;
                }
            }
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    let unread = agreed.filter(|agreed| !agreed.may_ask()).map_or(0, Agreed::header_bytes);
    chains[..count].iter().for_each(|chain| chain.prefetch(memory, unread));
    (count, broken)
}
