//! A split: 256 slots by eight bits of the address, and the words of their leaves.

use super::leaf::{Below, Form, Leaf, ends, in_map, words_of};
use super::{Found, Key, Prefix, put};
use std::sync::Arc;

/// Words that no leaf has are left between others up to so many.
const SPARE_WORDS: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The longest of the split's own prefixes that covers the slot; 0: none.
    best: u32,
    below: Below,
}

/// All below share the bits of `mask` with `base`: the first `depth`. Own prefixes have `depth` to `depth +
/// 8` bits, those below have more.
#[derive(Clone, Debug)]
pub(super) struct Split<K> {
    base: K,
    mask: K,
    /// The address's bits behind those of the slots.
    shift: u8,
    slots: [Slot; 256],
    words: Vec<u64>,
    splits: Vec<Arc<Split<K>>>,
    own: Vec<Prefix<K>>,
    /// Words that no leaf has.
    spare: usize,
}

impl<K: Key> Split<K> {
    pub(super) fn new(base: K, depth: u8) -> Self {
        Self {
            base: base.first(depth),
            mask: K::ZERO.last(0).first(depth),
            shift: K::BITS - 8 - depth,
            slots: [Slot::default(); 256],
            words: Vec::new(),
            splits: Vec::new(),
            own: Vec::new(),
            spare: 0,
        }
    }

    fn depth(&self) -> u8 {
        K::BITS - 8 - self.shift
    }

    /// Returns the longest prefix that covers `key`, which shares the split's bits; 0: none does.
    #[inline(always)]
    pub(super) fn longest(&self, key: K) -> u32 {
        let (split, below, best) = self.reach(key);
        if below == Below::default() {
            return best;
        }
        let Some(words) = split.words.get(below.index()..) else { return best };
        let inner = match below.form() {
            Form::Split => return best,
            Form::List(count) => words.get(..count * K::WORDS).map_or(0, |list| key.in_list(list)),
            Form::Map(bits) => {
                let shift = split.shift.wrapping_sub(8);
                in_map(words, bits, key.byte(shift), K::BITS - 8 - shift)
            }
        };
        if inner == 0 { best } else { inner }
    }

    /// True if there is a prefix for some of the addresses of a slot.
    pub(super) fn has_some(&self, byte: usize) -> bool {
        self.slots[byte].best != 0 || self.slots[byte].below != Below::default()
    }

    /// Goes down to the split whose slot has no split for `key`. Returns it with what is below the slot and
    /// the best of the prefixes on the way.
    #[inline(always)]
    fn reach(&self, key: K) -> (&Self, Below, u32) {
        let (mut split, mut best) = (self, 0);
        loop {
            let slot = &split.slots[key.byte(split.shift)];
            best = if slot.best == 0 { best } else { slot.best };
            if !slot.below.is_split() {
                return (split, slot.below, best);
            }
            match split.splits.get(slot.below.index()) {
                Some(below) if key.is_equal(below.base, below.mask) => split = below,
                _ => return (split, slot.below, best),
            }
        }
    }

    /// Reads what a lookup of `key` will read of its leaf.
    #[inline(always)]
    pub(super) fn touch(&self, key: K) -> u64 {
        let (split, below, _) = self.reach(key);
        split.words.get(below.index()..).and_then(|words| words.first_chunk()).map_or(0, ends)
    }

    /// Calls `take` with the prefixes on the way to `key`, those of each split and at
    /// last those of a leaf. Not all of them cover it.
    pub(super) fn on_the_way(&self, key: K, mut take: impl FnMut(Prefix<K>)) {
        self.own.iter().for_each(|prefix| take(*prefix));
        let byte = key.byte(self.shift);
        match self.below(byte) {
            Some(below) if key.is_equal(below.base, below.mask) => below.on_the_way(key, take),
            Some(_) => {}
            None => self.leaf(byte).each(take),
        }
    }

    /// Returns the value of exactly this prefix.
    pub(super) fn get(&self, which: (K, u8)) -> Option<u32> {
        if which.1 <= self.depth() + 8 {
            let at = self.own.binary_search_by_key(&which, Prefix::order).ok()?;
            return Some(self.own[at].value);
        }
        let byte = which.0.byte(self.shift);
        if let Some(below) = self.below(byte) {
            let shared = which.0.common(below.base).min(which.1);
            return if shared < below.depth() { None } else { below.get(which) };
        }
        let mut value = None;
        self.leaf(byte).each(|prefix| {
            if prefix.order() == which {
                value = Some(prefix.value);
            }
        });
        value
    }

    fn below(&self, byte: usize) -> Option<&Arc<Self>> {
        let below = self.slots[byte].below;
        below.is_split().then(|| &self.splits[below.index()])
    }

    fn leaf(&self, byte: usize) -> Leaf<'_, K> {
        let below = self.slots[byte].below;
        let (base, depth) = (self.base.with(byte, self.shift), self.depth() + 8);
        let index = if below.is_split() { 0 } else { below.index() };
        Leaf { form: below.form(), words: &self.words[index..], base, depth }
    }

    /// Gives a prefix a value. Returns the one that it had.
    pub(super) fn insert(&mut self, prefix: Prefix<K>) -> Option<u32> {
        if prefix.len <= self.depth() + 8 {
            let old = put(&mut self.own, prefix);
            self.paint(prefix);
            return old;
        }
        let byte = prefix.first.byte(self.shift);
        let below = self.slots[byte].below;
        if !below.is_split() {
            let mut all = self.leaf(byte).prefixes();
            let old = put(&mut all, prefix);
            self.write(byte, &all);
            return old;
        }
        let split = &mut self.splits[below.index()];
        let shared = prefix.first.common(split.base).min(prefix.len);
        if shared < split.depth() {
            *split = Arc::new(Self::above(Arc::clone(split), shared));
        }
        Arc::make_mut(split).insert(prefix)
    }

    /// Takes a prefix out. Returns its value.
    pub(super) fn remove(&mut self, which: (K, u8)) -> Option<u32> {
        let byte = which.0.byte(self.shift);
        if which.1 <= self.depth() + 8 {
            let at = self.own.binary_search_by_key(&which, Prefix::order).ok()?;
            let old = self.own.remove(at);
            self.slots.iter_mut().for_each(|slot| slot.best = 0);
            for prefix in self.own.clone() {
                self.paint(prefix);
            }
            return Some(old.value);
        }
        if let Some(below) = self.below(byte) {
            let shared = which.0.common(below.base).min(which.1);
            let index = self.slots[byte].below.index();
            let is_below = shared >= below.depth();
            return is_below.then(|| Arc::make_mut(&mut self.splits[index]).remove(which)).flatten();
        }
        let mut all = self.leaf(byte).prefixes();
        let at = all.binary_search_by_key(&which, Prefix::order).ok()?;
        let old = all.remove(at);
        self.write(byte, &all);
        Some(old.value)
    }

    /// Makes an own prefix the best of the slots that have no longer one.
    fn paint(&mut self, prefix: Prefix<K>) {
        let (from, to) = (prefix.first.byte(self.shift), prefix.first.last(prefix.len).byte(self.shift));
        for slot in &mut self.slots[from..=to] {
            if Found(slot.best).len() <= prefix.len {
                slot.best = prefix.number();
            }
        }
    }

    /// Gives a slot a leaf with these prefixes, or a split if they are too many for one.
    fn write(&mut self, byte: usize, prefixes: &[Prefix<K>]) {
        let old = self.leaf(byte).len();
        let mut index = self.slots[byte].below.index();
        let Some((form, words)) = words_of(prefixes, self.depth() + 8) else {
            self.spare += old;
            self.slots[byte].below = Below::new(self.splits.len(), Form::Split);
            self.splits.push(Arc::new(Self::of(prefixes)));
            return;
        };
        if old == words.len() {
            self.words[index..index + old].copy_from_slice(&words);
        } else {
            index = self.words.len();
            self.words.extend(&words);
            self.spare += old;
        }
        self.slots[byte].below = if words.is_empty() { Below::default() } else { Below::new(index, form) };
        if self.spare > SPARE_WORDS + self.words.len() / 2 {
            self.pack();
        }
    }

    /// Moves the leaves' words together, in the order of addresses.
    fn pack(&mut self) {
        let mut words = Vec::with_capacity(self.words.len() - self.spare);
        for byte in 0..256 {
            let leaf = self.leaf(byte);
            let (below, len) = (self.slots[byte].below, leaf.len());
            if !below.is_split() {
                let index = if len == 0 { 0 } else { words.len() };
                words.extend(&leaf.words[..len]);
                self.slots[byte].below = Below::new(index, below.form());
            }
        }
        (self.words, self.spare) = (words, 0);
    }

    /// Packs this split and all below.
    pub(super) fn pack_all(&mut self) {
        self.pack();
        self.splits.iter_mut().for_each(|below| Arc::make_mut(below).pack_all());
    }

    /// Returns a split with the prefixes of a leaf, as deep as they share bits.
    fn of(prefixes: &[Prefix<K>]) -> Self {
        let (low, high) = (prefixes[0].first, prefixes[prefixes.len() - 1].first);
        let shortest = prefixes.iter().map(|prefix| prefix.len).min().unwrap_or(0);
        let mut split = Self::new(low, depth_of(low.common(high).min(shortest), K::BITS - 8));
        for prefix in prefixes {
            split.insert(*prefix);
        }
        split
    }

    /// Returns a split of at most `shared` bits that holds `inner`, a split of more.
    fn above(inner: Arc<Self>, shared: u8) -> Self {
        let mut outer = Self::new(inner.base, depth_of(shared, inner.depth() - 8));
        outer.slots[inner.base.byte(outer.shift)].below = Below::new(0, Form::Split);
        outer.splits.push(inner);
        outer
    }
}

/// Splits are at multiples of eight bits, so that one fits between any two.
fn depth_of(shared: u8, most: u8) -> u8 {
    (shared / 8 * 8).min(most)
}
