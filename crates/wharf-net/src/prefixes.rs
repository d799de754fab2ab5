//! A table of prefixes, with the longest match. It is persistent: a clone costs a pointer, and a change
//! copies the few nodes on its way, so that readers keep the table that they have while the next is made.
//!
//! A split is a node of 256 slots, by eight bits of the address. Below it is a leaf of at most
//! `LEAF_ROUTES_MAX` prefixes, as sorted ranges of addresses (DXR, Zec and Rizzo 2012): a lookup is one
//! binary search in a few cache lines. A prefix that ends within a split's eight bits stays in the split, and
//! is painted on its slots. So a change touches one node, however short the prefix is.

use std::fmt::Debug;
use std::sync::Arc;

/// The most prefixes of a leaf: a search in twice as many ranges.
const LEAF_ROUTES_MAX: usize = 48;
/// A value and one are less than this, so that a value, its prefix's length and "none" share a word.
pub(crate) const VALUES_MAX: u32 = 1 << 24;

/// An address as a number: `u32` or `u128`.
pub(crate) trait Key: Copy + Ord + Debug {
    const BITS: u8;
    /// Returns the eight bits behind the first `depth`.
    fn slot(self, depth: u8) -> usize;
    /// Returns the number of leading bits that two keys share.
    fn common(self, other: Self) -> u8;
    /// Returns the first address of the prefix of `len` bits that the key is in.
    fn first(self, len: u8) -> Self;
    /// Returns the last address of that prefix.
    fn last(self, len: u8) -> Self;
    fn successor(self) -> Option<Self>;
}

macro_rules! key {
    ($number:ty) => {
        impl Key for $number {
            const BITS: u8 = <$number>::BITS as u8;
            #[inline(always)]
            fn slot(self, depth: u8) -> usize {
                (self >> (<Self as Key>::BITS - 8 - depth)) as usize & 255
            }
            #[inline(always)]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            fn first(self, len: u8) -> Self {
                self & !Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            fn last(self, len: u8) -> Self {
                self | Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}

key!(u32);
key!(u128);

/// What a lookup finds: a value, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found(u32);

impl Found {
    pub(crate) fn value(self) -> u32 {
        self.0 % VALUES_MAX - 1
    }

    pub(crate) fn len(self) -> u8 {
        (self.0 / VALUES_MAX) as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix<K> {
    first: K,
    len: u8,
    value: u32,
}

impl<K: Key> Prefix<K> {
    fn order(&self) -> (K, u8) {
        (self.first, self.len)
    }

    fn best(&self) -> u32 {
        u32::from(self.len) * VALUES_MAX + self.value + 1
    }

    fn covers(&self, key: K) -> bool {
        key.common(self.first) >= self.len
    }
}

/// The addresses from `start` to the next range's. `best` is 0 where no prefix of the leaf covers them.
#[derive(Clone, Copy, Debug)]
struct Range<K> {
    start: K,
    best: u32,
}

#[derive(Clone, Debug)]
enum Node<K> {
    Empty,
    Leaf { ranges: Arc<[Range<K>]>, prefixes: Arc<[Prefix<K>]> },
    Split(Arc<Split<K>>),
}

#[derive(Clone, Debug)]
struct Slot<K> {
    /// The longest of the split's own prefixes that covers the slot; 0: none.
    best: u32,
    below: Node<K>,
}

/// `depth` bits are shared by all below. Own prefixes have `depth` to `depth + 8` bits, those below have
/// more.
#[derive(Clone, Debug)]
struct Split<K> {
    base: K,
    depth: u8,
    own: Vec<Prefix<K>>,
    slots: Box<[Slot<K>]>,
}

/// Prefixes with a value each.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<K> {
    root: Node<K>,
    count: usize,
}

impl<K> Default for Prefixes<K> {
    fn default() -> Self {
        Self { root: Node::Empty, count: 0 }
    }
}

impl<K: Key> Prefixes<K> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the longest prefix that covers `key`.
    #[inline]
    pub(crate) fn longest(&self, key: K) -> Option<Found> {
        let (mut best, mut node) = (0, &self.root);
        loop {
            match node {
                Node::Split(split) if key.common(split.base) >= split.depth => {
                    let slot = &split.slots[key.slot(split.depth)];
                    best = if slot.best == 0 { best } else { slot.best };
                    node = &slot.below;
                }
                Node::Leaf { ranges, .. } => {
                    let at = ranges.partition_point(|range| range.start <= key);
                    let inner = if at == 0 { 0 } else { ranges[at - 1].best };
                    best = if inner == 0 { best } else { inner };
                    break;
                }
                _ => break,
            }
        }
        (best != 0).then_some(Found(best))
    }

    /// Returns the longest prefix that covers `key` and is shorter than `len`: where the longest was of no
    /// use.
    pub(crate) fn shorter(&self, key: K, len: u8) -> Option<Found> {
        let (mut best, mut node): (Option<Prefix<K>>, _) = (None, &self.root);
        loop {
            let (prefixes, below): (&[_], _) = match node {
                Node::Split(split) if key.common(split.base) >= split.depth => {
                    (&split.own, &split.slots[key.slot(split.depth)].below)
                }
                Node::Leaf { prefixes, .. } => (prefixes, &Node::Empty),
                _ => break,
            };
            let covering = prefixes.iter().filter(|prefix| prefix.len < len && prefix.covers(key));
            best = covering.max_by_key(|prefix| prefix.len).copied().or(best);
            node = below;
        }
        best.map(|prefix| Found(prefix.best()))
    }

    /// Returns the value of exactly this prefix.
    pub(crate) fn get(&self, first: K, len: u8) -> Option<u32> {
        let mut node = &self.root;
        loop {
            let prefixes: &[_] = match node {
                Node::Split(split) if first.common(split.base) >= split.depth && len >= split.depth => {
                    if len > split.depth + 8 {
                        node = &split.slots[first.slot(split.depth)].below;
                        continue;
                    }
                    &split.own
                }
                Node::Leaf { prefixes, .. } => prefixes,
                _ => return None,
            };
            let at = prefixes.binary_search_by_key(&(first, len), Prefix::order).ok()?;
            return Some(prefixes[at].value);
        }
    }

    /// Gives a prefix a value. Returns the one that it had.
    pub(crate) fn insert(&mut self, first: K, len: u8, value: u32) -> Option<u32> {
        let old = insert(&mut self.root, Prefix { first: first.first(len), len, value });
        self.count += usize::from(old.is_none());
        old
    }

    /// Takes a prefix out. Returns its value.
    pub(crate) fn remove(&mut self, first: K, len: u8) -> Option<u32> {
        let old = remove(&mut self.root, first.first(len), len);
        self.count -= usize::from(old.is_some());
        old
    }
}

fn insert<K: Key>(node: &mut Node<K>, prefix: Prefix<K>) -> Option<u32> {
    match node {
        Node::Empty => {
            *node = leaf(vec![prefix]);
            None
        }
        Node::Leaf { prefixes, .. } => {
            let mut prefixes = prefixes.to_vec();
            let old = put(&mut prefixes, prefix);
            *node = if prefixes.len() > LEAF_ROUTES_MAX { split_of(&prefixes) } else { leaf(prefixes) };
            old
        }
        Node::Split(split) => {
            let shared = prefix.first.common(split.base).min(prefix.len);
            if shared < split.depth {
                *node = above(split.clone(), shared);
                return insert(node, prefix);
            }
            Arc::make_mut(split).insert(prefix)
        }
    }
}

fn remove<K: Key>(node: &mut Node<K>, first: K, len: u8) -> Option<u32> {
    match node {
        Node::Empty => None,
        Node::Leaf { prefixes, .. } => {
            let at = prefixes.binary_search_by_key(&(first, len), Prefix::order).ok()?;
            let mut prefixes = prefixes.to_vec();
            let old = prefixes.remove(at).value;
            *node = if prefixes.is_empty() { Node::Empty } else { leaf(prefixes) };
            Some(old)
        }
        Node::Split(split) if first.common(split.base) < split.depth || len < split.depth => None,
        Node::Split(split) => Arc::make_mut(split).remove(first, len),
    }
}

impl<K: Key> Split<K> {
    fn new(base: K, depth: u8) -> Self {
        let slots = (0..256).map(|_| Slot { best: 0, below: Node::Empty }).collect();
        Self { base: base.first(depth), depth, own: Vec::new(), slots }
    }

    fn insert(&mut self, prefix: Prefix<K>) -> Option<u32> {
        if prefix.len > self.depth + 8 {
            return insert(&mut self.slots[prefix.first.slot(self.depth)].below, prefix);
        }
        let old = put(&mut self.own, prefix);
        self.paint(prefix);
        old
    }

    fn remove(&mut self, first: K, len: u8) -> Option<u32> {
        if len > self.depth + 8 {
            return remove(&mut self.slots[first.slot(self.depth)].below, first, len);
        }
        let at = self.own.binary_search_by_key(&(first, len), Prefix::order).ok()?;
        let old = self.own.remove(at);
        self.slots.iter_mut().for_each(|slot| slot.best = 0);
        for prefix in self.own.clone() {
            self.paint(prefix);
        }
        Some(old.value)
    }

    /// Makes an own prefix the best of the slots that have no longer one.
    fn paint(&mut self, prefix: Prefix<K>) {
        let (from, to) = (prefix.first.slot(self.depth), prefix.first.last(prefix.len).slot(self.depth));
        for slot in &mut self.slots[from..=to] {
            if Found(slot.best).len() <= prefix.len {
                slot.best = prefix.best();
            }
        }
    }
}

/// Puts a prefix in its place. Returns the value that it had.
fn put<K: Key>(prefixes: &mut Vec<Prefix<K>>, prefix: Prefix<K>) -> Option<u32> {
    match prefixes.binary_search_by_key(&prefix.order(), Prefix::order) {
        Ok(at) => Some(std::mem::replace(&mut prefixes[at], prefix).value),
        Err(at) => {
            prefixes.insert(at, prefix);
            None
        }
    }
}

/// Returns a split with the prefixes of a leaf, as deep as they share bits.
fn split_of<K: Key>(prefixes: &[Prefix<K>]) -> Node<K> {
    let (low, high) = (prefixes[0].first, prefixes[prefixes.len() - 1].first);
    let shortest = prefixes.iter().map(|prefix| prefix.len).min().unwrap_or(0);
    let mut split = Split::new(low, depth_of(low.common(high).min(shortest), K::BITS - 8));
    for prefix in prefixes {
        split.insert(*prefix);
    }
    Node::Split(Arc::new(split))
}

/// Returns a split of at most `shared` bits that holds `inner`, which has more.
fn above<K: Key>(inner: Arc<Split<K>>, shared: u8) -> Node<K> {
    let mut outer = Split::new(inner.base, depth_of(shared, inner.depth - 8));
    let at = inner.base.slot(outer.depth);
    outer.slots[at].below = Node::Split(inner);
    Node::Split(Arc::new(outer))
}

/// Splits are at multiples of eight bits, so that one fits between any two.
fn depth_of(shared: u8, most: u8) -> u8 {
    (shared / 8 * 8).min(most)
}

/// Returns a leaf of sorted prefixes, with the ranges that they cut the addresses into.
fn leaf<K: Key>(prefixes: Vec<Prefix<K>>) -> Node<K> {
    let (mut ranges, mut open): (Vec<Range<K>>, Vec<Prefix<K>>) = (Vec::new(), Vec::new());
    for prefix in &prefixes {
        close(&mut ranges, &mut open, Some(prefix.first));
        begin(&mut ranges, prefix.first, prefix.best());
        open.push(*prefix);
    }
    close(&mut ranges, &mut open, None);
    Node::Leaf { ranges: ranges.into(), prefixes: prefixes.into() }
}

/// Ends the open prefixes that end before `next`: behind each, the one around it is the best again.
fn close<K: Key>(ranges: &mut Vec<Range<K>>, open: &mut Vec<Prefix<K>>, next: Option<K>) {
    while let Some(inner) = open.pop_if(|inner| next.is_none_or(|next| !inner.covers(next))) {
        if let Some(start) = inner.first.last(inner.len).successor() {
            begin(ranges, start, open.last().map_or(0, Prefix::best));
        }
    }
}

fn begin<K: Key>(ranges: &mut Vec<Range<K>>, start: K, best: u32) {
    ranges.pop_if(|last| last.start == start);
    if ranges.last().map_or(0, |last| last.best) != best {
        ranges.push(Range { start, best });
    }
}

#[cfg(test)]
mod tests;
