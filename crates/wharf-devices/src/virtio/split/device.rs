//! The device's side of a split ring.

use super::super::descriptor::{Descriptor, INDIRECT, IndirectTable, NEXT, WRITE, walk};
use super::super::memory::Hand;
use super::super::notify::needs_event;
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::{
    FLAGS_AT, INDEX_AT, VRING_AVAIL_F_NO_INTERRUPT, available_event_at, entries, load, store, used_event_at,
};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::{Pair, Record, Short, Table};

/// Most descriptors that are prefetched when buffers are seen.
const PREFETCHED: u16 = 64;

/// Descriptors in the token of a buffer that another device left in flight: it lies at no index of the
/// available ring.
const LEFT: u16 = 0;

/// The device's side of a split ring.
#[derive(Debug)]
pub struct SplitDevice {
    place: Place,
    available: Table<Short>,
    entries: Table<Pair>,
    options: Options,
    mask: u16,
    /// Index of the next available entry to be popped.
    next: u16,
    /// The region of the last lookup.
    hint: u32,
    /// The available index at the last read.
    seen: u16,
    /// Index of the next used entry to be written.
    used: u16,
    /// The used index as the driver may see it.
    published: u16,
    /// The used index when the driver's notification request was last read; `None` before.
    last_signalled: Option<u16>,
    /// First descriptors of buffers that another device left in flight, the first one last: they come first.
    left: Vec<u16>,
    /// Such buffers are in the batch, or come next.
    resumes: bool,
}

impl SplitDevice {
    /// Resumes at buffer `base`, behind those in flight; the used index is read from the ring.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout, [`RingError::Base`].
    pub fn new(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
        let place = place.of_layout(Layout::Split)?;
        let next = u16::try_from(base).map_err(|_| RingError::Base { base, size: place.size })?;
        let (mask, used) = (place.size - 1, load(&place.device, INDEX_AT));
        let left = place.inflight.as_ref().map_or_else(Vec::new, |table| table.resume_split(used));
        let next = next.wrapping_add(left.len() as u16);
        let available = entries(&place.driver, place.size, "driver area")?;
        let entries = entries(&place.device, place.size, "device area")?;
        Ok(Self {
            place,
            available,
            entries,
            options,
            mask,
            next,
            hint: 0,
            seen: next,
            used,
            published: used,
            last_signalled: None,
            resumes: !left.is_empty(),
            left,
        })
    }

    /// Returns the used index in the ring: the position of a device that uses buffers in order and at once,
    /// after any end.
    pub fn used_index(place: &Place) -> u16 {
        load(&place.device, INDEX_AT)
    }

    /// Reads the available index. Returns true if there are new buffers.
    #[inline]
    fn look(&mut self) -> Result<bool, RingError> {
        // (B)
        let index = u16::from_le(self.place.driver.load_u16_acquire(INDEX_AT));
        let size = self.place.size;
        let last = [self.next, self.used].into_iter().find(|&last| index.wrapping_sub(last) > size);
        if let Some(last) = last {
            return Err(RingError::IndexJump { area: "available", index, last, size });
        }
        self.seen = index;
        self.prefetch();
        Ok(index != self.next)
    }

    /// Prefetches the descriptors of the next buffers: most often they are consecutive, four in a line.
    #[inline(always)]
    fn prefetch(&self) {
        let (available, descriptors) = (self.available.all(), self.place.descriptors.all());
        let count = self.seen.wrapping_sub(self.next).min(PREFETCHED);
        for ahead in (0..count).step_by(4) {
            let slot = usize::from(self.next.wrapping_add(ahead) & self.mask);
            let head = available.get(slot).map(|entry| usize::from(u16::from_le(entry.load())));
            if let Some(descriptor) = head.and_then(|head| descriptors.get(head)) {
                descriptor.prefetch();
            }
        }
    }

    /// Pops a buffer that another device left in flight.
    #[cold]
    fn pop_left(&mut self, head: u16, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError> {
        chain.start(Token { id: head, descriptors: LEFT });
        self.walk(self.descriptor(head)?, memory, chain)?;
        self.left.pop();
        Ok(true)
    }

    /// Follows a chain whose first descriptor, `first`, has a next one.
    #[inline(never)]
    fn walk(&self, first: Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        let next = |before: &Descriptor| self.descriptor(before.next_or_id);
        let table = |named: &Descriptor, chain: &mut Chain| self.walk_table(named, memory, chain);
        walk(first, self.place.size, memory, chain, next, table).map(drop)
    }

    /// Follows an indirect table.
    fn walk_table(&self, named: &Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        let table = IndirectTable::new(named, self.options)?;
        let (mut index, mut count, size) = (0, 0, table.size);
        loop {
            let descriptor = table.push(index, memory, chain, Descriptor::of_split)?;
            let next = descriptor.next_or_id;
            count += 1;
            match descriptor.flags & NEXT {
                0 => return Ok(()),
                _ if count == size => return Err(RingError::Loop { max: size }),
                _ if next >= size => return Err(RingError::NoDescriptor { index: next, size }),
                _ => index = next,
            }
        }
    }

    #[inline(always)]
    fn descriptor(&self, index: u16) -> Result<Descriptor, RingError> {
        let size = self.place.size;
        let record = self.place.descriptors.all().get(usize::from(index));
        record.map(Descriptor::read).ok_or(RingError::NoDescriptor { index, size })
    }
}

/// Pops plain buffers of one region into `chains`, from index `first` on. Returns their number.
// The loop's state is in locals: a field behind a reference is read anew after each word of the ring.
#[inline(always)]
fn pop_run(
    available: &[Short], descriptors: &[Record], first: u16, hand: Hand, chains: &mut [Chain],
) -> usize {
    let mask = (available.len() as u16).wrapping_sub(1);
    for (at, chain) in chains.iter_mut().enumerate() {
        let Some((head, only)) = plain(available, descriptors, first.wrapping_add(at as u16) & mask) else {
            return at;
        };
        let Some(part) = hand.find(only.address, only.len_bytes) else { return at };
        chain.set_only(Token { id: head, descriptors: 1 }, part, only.flags & WRITE != 0);
    }
    chains.len()
}

/// Returns the buffer that available entry `slot` names, and its first descriptor, if that is all of it.
#[inline(always)]
fn plain(available: &[Short], descriptors: &[Record], slot: u16) -> Option<(u16, Descriptor)> {
    let head = u16::from_le(available.get(usize::from(slot))?.load());
    let only = descriptors.get(usize::from(head)).map(Descriptor::read)?;
    (only.flags & (NEXT | INDIRECT) == 0).then_some((head, only))
}

/// Writes a used entry. With buffers in order, most entries are as in the round before: a line that is not
/// written need not travel to the driver again.
#[inline(always)]
fn write_used(entries: &[Pair], slot: u16, token: Token, written_bytes: u32) {
    let Some(entry) = entries.get(usize::from(slot)) else { return };
    let words = [u32::from(token.id).to_le(), written_bytes.to_le()];
    if entry.load() != words {
        entry.store(words);
    }
}

impl DeviceRing for SplitDevice {
    fn size(&self) -> u16 {
        self.place.size
    }

    #[inline]
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError> {
        if let Some(&head) = self.left.last() {
            return self.pop_left(head, memory, chain);
        }
        if self.next == self.seen && !self.look()? {
            return Ok(false);
        }
        if self.pop_plain(memory, std::slice::from_mut(chain)) == 1 {
            return Ok(true);
        }
        let entry = self.available.all().get(usize::from(self.next & self.mask));
        let head = entry.map_or(u16::MAX, |entry| u16::from_le(entry.load()));
        let (first, token) = (self.descriptor(head)?, Token { id: head, descriptors: 1 });
        chain.start(token);
        self.walk(first, memory, chain)?;
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    #[inline]
    fn pop_plain(&mut self, memory: &Memory, chains: &mut [Chain]) -> usize {
        let (available, descriptors) = (self.available.all(), self.place.descriptors.all());
        let (mut hand, mut is_other, mut count) = (memory.hand(self.hint), false, 0);
        let ready = match self.resumes {
            true => 0,
            false => chains.len().min(self.seen.wrapping_sub(self.next).into()),
        };
        while count < ready {
            let popped = pop_run(available, descriptors, self.next, hand, &mut chains[count..ready]);
            self.next = self.next.wrapping_add(popped as u16);
            count += popped;
            if count == ready {
                break;
            }
            let first = plain(available, descriptors, self.next & self.mask);
            let other = first.and_then(|(_, first)| memory.other_hand(first.address, first.len_bytes, hand));
            // A peer that changes the address meanwhile is not followed for ever.
            let Some(other) = other.filter(|_| popped > 0 || !is_other) else { break };
            (hand, is_other) = (other, true);
        }
        self.hint = hand.index;
        count
    }

    fn undo_pop(&mut self, token: Token) {
        match token.descriptors {
            LEFT => self.left.push(token.id),
            _ => self.next = self.next.wrapping_sub(1),
        }
    }

    #[inline]
    fn put_used(&mut self, token: Token, written_bytes: u32) {
        if self.resumes {
            self.place.inflight.iter().for_each(|table| table.link(token.id));
        }
        write_used(self.entries.all(), self.used & self.mask, token, written_bytes);
        self.used = self.used.wrapping_add(1);
    }

    #[inline]
    fn put_all_used(&mut self, chains: &[Chain]) {
        if self.resumes {
            return chains.iter().for_each(|chain| self.put_used(chain.token(), 0));
        }
        let (entries, mask, mut used) = (self.entries.all(), self.mask, self.used);
        for chain in chains {
            write_used(entries, used & mask, chain.token(), 0);
            used = used.wrapping_add(1);
        }
        self.used = used;
    }

    #[inline]
    fn publish(&mut self) -> bool {
        if self.used == self.published {
            return false;
        }
        // (C)
        self.place.device.store_u16_release(INDEX_AT, self.used.to_le());
        if let Some(table) = &self.place.inflight {
            let linked = if self.resumes { self.used.wrapping_sub(self.published) } else { 0 };
            table.settle(linked, self.used);
            self.resumes &= !self.left.is_empty();
        }
        self.published = self.used;
        true
    }

    fn needs_notification(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        let last_signalled = self.last_signalled.replace(self.published);
        if !self.options.event_idx {
            return last_signalled != Some(self.published)
                && load(&self.place.driver, FLAGS_AT) & VRING_AVAIL_F_NO_INTERRUPT == 0;
        }
        let event = load(&self.place.driver, used_event_at(self.place.size));
        // The first time, the last signalled index is unknown.
        last_signalled.is_none_or(|last_signalled| needs_event(event, self.published, last_signalled))
    }

    fn enable_notification_behind(&mut self, descriptors: u16) -> bool {
        let known = self.next.wrapping_add(descriptors);
        if self.options.event_idx {
            store(&self.place.device, available_event_at(self.place.size), known);
        } else {
            store(&self.place.device, FLAGS_AT, 0);
        }
        // (F)
        fence(Ordering::SeqCst);
        (self.left.is_empty() || descriptors > 0) && load(&self.place.driver, INDEX_AT) == known
    }

    fn disable_notification(&mut self) {
        if !self.options.event_idx {
            store(&self.place.device, FLAGS_AT, VRING_AVAIL_F_NO_INTERRUPT);
        }
    }

    fn next_avail(&self) -> u32 {
        self.next.into()
    }
}
