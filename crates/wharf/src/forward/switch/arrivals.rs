//! `Arrivals`: the handler of what arrives at one port of a switch.
//!
//! Goal: each frame leaves by the port of its destination, by all ports of its VLAN, or by none, and is
//! counted; no port holds up another. So frames for which a port's queue has no room are dropped, by its
//! discipline or by the sender, and never wait here. A copy that finds no memory is counted as made, and as
//! dropped.

use super::Switch;
use super::frame::{Read, Vlans, Wanted, Wrong, retag};
use super::table::{PORTS_MAX, Seen};
use crate::forward::pass::{Activity, Counts, Unsent, add};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wharf_core::gso::GsoLimiter;
use wharf_core::host::Clock;
use wharf_core::pool::{Burst, Cache, Packet};
use wharf_core::rx::Rest;
use wharf_core::sender::{SendNow, Spread};
use wharf_core::sg_writer::SgWriter;
use wharf_mem::Frame;

/// The way out by another port.
pub(super) struct Out {
    pub(super) vlans: Vlans,
    pub(super) by: Spread,
    pub(super) limiter: Option<GsoLimiter>,
    /// Frames of this burst that leave by it.
    pub(super) staged: Burst,
}

/// Copies that one port may have made, by a bucket of tokens.
#[derive(Debug)]
pub(super) struct Budget {
    per_s: u64,
    left: u64,
    since_ns: u64,
}

impl Budget {
    /// `per_s` copies a second; after a pause as many at once as in a tenth of that, and at least those of one
    /// frame.
    pub(super) fn new(per_s: u32) -> Self {
        let per_s = u64::from(per_s);
        Self { per_s, left: Self::most(per_s), since_ns: 0 }
    }

    fn most(per_s: u64) -> u64 {
        (per_s / 10).max(PORTS_MAX as u64)
    }

    /// Takes `copies`, if there are as many; of more than it ever has, those.
    fn take(&mut self, copies: u64, now_ns: u64) -> bool {
        let (most, second_ns) = (Self::most(self.per_s), 1_000_000_000);
        let passed_ns = u128::from(now_ns.saturating_sub(self.since_ns));
        let more = (passed_ns * u128::from(self.per_s) / second_ns).min(most.into()) as u64;
        if more > 0 {
            // Parts of a copy count next time.
            let spent_ns = u128::from(more) * second_ns / u128::from(self.per_s);
            self.since_ns = if more == most { now_ns } else { self.since_ns + spent_ns as u64 };
            self.left = most.min(self.left + more);
        }
        let copies = copies.min(most);
        let has = self.left >= copies;
        self.left -= if has { copies } else { 0 };
        has
    }
}

/// Ports that have come and gone, for a handler that has not run since.
#[derive(Default)]
pub(super) struct Changes {
    is_due: AtomicBool,
    /// By number: the way out, or none any more.
    outs: Mutex<Vec<(usize, Option<Out>)>>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes({})", wharf_mem::lock(&self.outs).len())
    }
}

impl Changes {
    pub(super) fn tell(&self, number: usize, out: Option<Out>) {
        let mut outs = wharf_mem::lock(&self.outs);
        // A port that receives nothing does not keep those that have gone again.
        outs.retain(|(known, _)| *known != number);
        outs.push((number, out));
        drop(outs);
        self.is_due.store(true, Relaxed);
    }
}

/// Copies frames, into memory of the switch.
pub(super) struct Copier {
    pub(super) writer: SgWriter,
    pub(super) memory: Cache,
}

/// See the module.
pub(super) struct Arrivals {
    pub(super) switch: Arc<Switch>,
    pub(super) port: u8,
    pub(super) vlans: Vlans,
    /// By port; none for its own.
    pub(super) outs: Vec<Option<Out>>,
    pub(super) changes: Arc<Changes>,
    pub(super) budget: Budget,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) copier: Copier,
    pub(super) activity: Arc<Activity>,
    pub(super) counts: Arc<Counts>,
}

impl Arrivals {
    /// Sends the frames of `burst` on.
    pub(super) fn pass(&mut self, burst: &mut Burst) -> Rest {
        if self.changes.is_due.swap(false, Relaxed) {
            self.change();
        }
        let tick = self.switch.tick.load(Relaxed);
        while let Some(frame) = burst.frames().first() {
            // A frame of the burst is of its pool.
            let head = burst.pool().region().bytes(frame).unwrap_or_default();
            match self.way(head, tick) {
                Ok((mut read, to)) => {
                    let count = if read.has_priority { 1 } else { run_of(burst, head) };
                    if read.has_priority {
                        burst
                            .packets_mut()
                            .take(1)
                            .for_each(|mut packet| read.complete_tag(packet.head_mut()));
                    }
                    match to {
                        Some(to) => self.send_to(usize::from(to), &read, burst, count),
                        None => self.flood(&read, burst),
                    }
                }
                Err(reason) => self.drop_first(burst, reason),
            }
        }
        self.outs.iter_mut().flatten().for_each(|out| out.send(&self.counts));
        self.activity.moved();
        Rest::Free
    }

    #[cold]
    fn change(&mut self) {
        for (number, out) in wharf_mem::lock(&self.changes.outs).drain(..) {
            let len = self.outs.len().max(number + 1);
            self.outs.resize_with(len, || None);
            self.outs[number] = out;
        }
    }

    /// Returns the header of a frame, and the port that it leaves by; none for all of its VLAN.
    fn way(&self, head: &[u8], tick: u8) -> Result<(Read, Option<u8>), Unsent> {
        let read = Read::of(head, &self.vlans).map_err(|wrong| match wrong {
            Wrong::Address => Unsent::BadAddress,
            Wrong::LinkLocal => Unsent::LinkLocal,
            Wrong::Vlan => Unsent::OtherVlan,
        })?;
        let may_be_here = || self.switch.may_be_at(&head[6..12], self.port);
        match self.switch.table.see(read.from, self.port, tick, may_be_here) {
            Seen::Here | Seen::NoRoom => {}
            Seen::NotHere => return Err(Unsent::Spoofed),
        }
        let Wanted::Station(station) = read.to else { return Ok((read, None)) };
        let known = self.switch.table.port_of(station);
        match known.or_else(|| self.switch.pinned(&head[..6])) {
            Some(port) if port == self.port => Err(Unsent::SamePort),
            Some(port) if self.out(port.into(), read.vlan).is_some() => Ok((read, Some(port))),
            _ => Ok((read, None)),
        }
    }

    /// Returns the way out by `port`, if that is in the VLAN.
    fn out(&self, port: usize, vlan: u16) -> Option<&Out> {
        self.outs.get(port)?.as_ref().filter(|out| out.vlans.has(vlan))
    }

    /// Sends the first `count` frames, or fewer, by port `to`.
    fn send_to(&mut self, to: usize, read: &Read, burst: &mut Burst, count: usize) {
        let Some(Some(out)) = self.outs.get_mut(to) else { return };
        if out.vlans.tags(read.vlan) != read.is_tagged {
            return self.forward_retagged(to, read, burst);
        }
        if out.is_full() {
            out.send(&self.counts);
        }
        let moved = burst.move_first(&mut out.staged, count);
        debug_assert!(moved > 0, "a burst that was sent has room");
    }

    fn forward_retagged(&mut self, to: usize, read: &Read, burst: &mut Burst) {
        let (Some(mut packet), Some(Some(out))) = (burst.pop(), self.outs.get_mut(to)) else { return };
        match retag(&mut packet, out.vlans.tags(read.vlan).then_some(read.vlan)) {
            Ok(()) => out.push(packet, &self.counts),
            Err(_) => self.counts.note(Unsent::NoHeadroom, 1),
        }
    }

    /// Sends the first frame by all ports of its VLAN but this one: copies, and the frame itself by the last
    /// of those that have it with a tag, or without, as it is not now.
    #[inline(never)]
    fn flood(&mut self, read: &Read, burst: &mut Burst) {
        let all = || (0..self.outs.len()).filter(|&port| self.out(port, read.vlan).is_some());
        let Some(copies) = all().count().checked_sub(1) else {
            return self.drop_first(burst, Unsent::NoPort);
        };
        // A copy of a super-packet takes the memory of many.
        let first_bytes = burst.frames().first().map_or(0, |frame| frame.len_bytes());
        let buffers = first_bytes.div_ceil(burst.pool().packet_bytes_max().max(1)).max(1);
        if !self.budget.take((copies as u64 + 1) * u64::from(buffers), self.clock.now_ns()) {
            return self.drop_first(burst, Unsent::FloodLimit);
        }
        let Some(mut packet) = burst.pop() else { return };
        let mut left = copies;
        add(&self.counts.copies, copies as u64);
        for is_tagged in [read.is_tagged, !read.is_tagged] {
            for port in 0..self.outs.len() {
                let Some(out) = self.outs[port]
                    .as_mut()
                    .filter(|out| out.vlans.has(read.vlan) && out.vlans.tags(read.vlan) == is_tagged)
                else {
                    continue;
                };
                if left == 0 {
                    return out.push(packet, &self.counts);
                }
                left -= 1;
                out.push_copy(&packet, &mut self.copier, &self.counts);
            }
            if retag(&mut packet, (!read.is_tagged).then_some(read.vlan)).is_err() {
                return self.counts.note(Unsent::NoHeadroom, left as u64 + 1);
            }
        }
    }

    #[cold]
    fn drop_first(&self, burst: &mut Burst, reason: Unsent) {
        drop(burst.pop());
        self.counts.note(reason, 1);
    }
}

/// Returns the number of frames at the front that go the same way as the first, which begins with `head`:
/// those that begin alike.
#[inline]
fn run_of(burst: &Burst, head: &[u8]) -> usize {
    // Both addresses, the type, and the tag if there is one. A frame without bytes behind these goes alone.
    let key = |head: &[u8]| head.first_chunk().map(|start| u128::from_ne_bytes(*start));
    let Some(first) = key(head) else { return 1 };
    let (region, all) = (burst.pool().region(), burst.frames());
    let begins_so = |frame: &&Frame| region.bytes(frame).is_ok_and(|head| key(head) == Some(first));
    1 + all.get(1..).unwrap_or_default().iter().take_while(begins_so).count()
}

impl Out {
    fn is_full(&self) -> bool {
        self.staged.len() >= wharf_mem::batch::BATCH_FRAMES_MAX
    }

    fn push(&mut self, packet: Packet, counts: &Counts) {
        if self.is_full() {
            self.send(counts);
        }
        let pushed = self.staged.push(packet);
        debug_assert!(pushed.is_ok(), "a burst that was sent has room");
    }

    fn push_copy(&mut self, of: &Packet, copier: &mut Copier, counts: &Counts) {
        if self.is_full() {
            self.send(counts);
        }
        if !copier.writer.copy(of, &mut copier.memory, &mut self.staged) {
            counts.note(Unsent::NoMemory, 1);
        }
    }

    /// Sends what is staged. Nothing waits here: what the sender does not take is dropped.
    fn send(&mut self, counts: &Counts) {
        if self.staged.is_empty() {
            return;
        }
        let before = self.limiter.as_ref().map_or((0, 0), GsoLimiter::counts);
        let sent = match &mut self.limiter {
            Some(limiter) => limiter.send(&mut self.staged, &mut self.by),
            None => self.by.send_now(&mut self.staged),
        };
        if let Some(limiter) = &mut self.limiter {
            let (cut, pieces) = limiter.counts();
            add(&counts.cut, cut - before.0);
            add(&counts.pieces, pieces - before.1);
        }
        let left = self.staged.len() as u64;
        if left > 0 {
            counts.note(if sent.is_err() { Unsent::Closed } else { Unsent::NoMemory }, left);
            self.limiter.iter_mut().for_each(GsoLimiter::give_up);
            self.staged.clear();
        }
    }
}
