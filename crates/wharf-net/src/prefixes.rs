//! A table of prefixes, with the longest match. It is persistent: a clone costs a pointer, and a change
//! copies the few nodes on its way, so that readers keep the table that they have while the next is made.
//!
//! A split is a node of 256 slots, by eight bits of the address. Below it is a leaf of at most
//! `LEAF_PREFIXES_MAX` prefixes, as sorted ranges of addresses (DXR, Zec and Rizzo 2012). A prefix that ends
//! within a split's eight bits stays in the split, and is painted on its slots. So a change touches one node,
//! however short the prefix is.
//!
//! What a lookup reads is small and by itself: a slot has 24 bytes, and a range usually is one word of its
//! first address and what is found. A search counts the words that are not beyond, without a branch, so
//! that a processor has several lookups under way.

mod key;
mod leaf;
mod reach;

pub(crate) use key::Key;
use leaf::leaf;
pub(crate) use reach::Reached;

use std::sync::Arc;

/// The most prefixes of a leaf: a search in twice as many ranges.
const LEAF_PREFIXES_MAX: usize = 48;
/// A value and one are less than this, so that a value, its prefix's length and "none" share a word.
pub(crate) const VALUES_MAX: u32 = 1 << 24;

/// What a lookup finds: a value, and the length of its prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found(u32);

impl Found {
    pub(crate) fn value(self) -> u32 {
        self.0 % VALUES_MAX - 1
    }

    pub(crate) fn len(self) -> u8 {
        (self.0 / VALUES_MAX) as u8
    }

    /// Returns value and length as one number, which is never 0.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn of(number: u32) -> Self {
        Self(number)
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

/// What a lookup reads of a node. A leaf of no words is empty.
#[derive(Clone, Debug)]
enum Node<K: Key> {
    Leaf(Arc<[K::Word]>),
    Other(Arc<Other<K>>),
}

#[derive(Clone, Debug)]
enum Other<K: Key> {
    /// A leaf whose ranges do not fit words.
    Wide(Box<[Range<K>]>),
    Split(Split<K>),
}

/// A node with the prefixes of a leaf, which changes and `shorter` want.
#[derive(Clone, Debug)]
struct Place<K: Key> {
    node: Node<K>,
    prefixes: Arc<[Prefix<K>]>,
}

#[derive(Clone, Debug)]
struct Slot<K: Key> {
    node: Node<K>,
    /// The longest of the split's own prefixes that covers the slot; 0: none.
    best: u32,
}

/// `depth` bits are shared by all below. Own prefixes have `depth` to `depth + 8` bits, those below have
/// more.
#[derive(Clone, Debug)]
struct Split<K: Key> {
    base: K,
    depth: u8,
    slots: Box<[Slot<K>]>,
    own: Vec<Prefix<K>>,
    /// The prefixes of each slot's leaf.
    below: Box<[Arc<[Prefix<K>]>]>,
}

/// Prefixes with a value each.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<K: Key> {
    root: Place<K>,
    count: usize,
    /// A bit for each first byte of an address that a prefix covers, or covered: most addresses are in no
    /// table of this host's own ones, and need no search to know that.
    first_bytes: [u64; 4],
}

impl<K: Key> Default for Prefixes<K> {
    fn default() -> Self {
        Self {
            root: Place { node: Node::Leaf([].into()), prefixes: [].into() },
            count: 0,
            first_bytes: [0; 4],
        }
    }
}

impl<K: Key> Prefixes<K> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// False if no prefix covers the key, or covered it.
    #[inline(always)]
    fn may_cover(&self, key: K) -> bool {
        let byte = key.slot(0);
        self.first_bytes[byte / 64] >> (byte % 64) & 1 != 0
    }

    /// Returns the longest prefix that covers `key`.
    #[inline]
    pub(crate) fn longest(&self, key: K) -> Option<Found> {
        self.search(self.reach(key)?, key)
    }

    /// Returns the longest prefix that covers `key` and is shorter than `len`: where the longest was of no
    /// use.
    pub(crate) fn shorter(&self, key: K, len: u8) -> Option<Found> {
        let mut best: Option<Prefix<K>> = None;
        let mut take = |prefixes: &[Prefix<K>]| {
            let covering = prefixes.iter().filter(|prefix| prefix.len < len && prefix.covers(key));
            best = covering.max_by_key(|prefix| prefix.len).copied().or(best);
        };
        let (mut node, mut prefixes) = (&self.root.node, &self.root.prefixes);
        while let Some(split) = split_in(node) {
            if key.common(split.base) < split.depth {
                return best.map(|prefix| Found(prefix.best()));
            }
            take(&split.own);
            let at = key.slot(split.depth);
            (node, prefixes) = (&split.slots[at].node, &split.below[at]);
        }
        take(prefixes);
        best.map(|prefix| Found(prefix.best()))
    }

    /// Returns the value of exactly this prefix.
    pub(crate) fn get(&self, first: K, len: u8) -> Option<u32> {
        let (mut node, mut prefixes) = (&self.root.node, &*self.root.prefixes);
        while let Some(split) = split_in(node) {
            if first.common(split.base).min(len) < split.depth {
                return None;
            }
            let at = first.slot(split.depth);
            if len <= split.depth + 8 {
                prefixes = &split.own;
                break;
            }
            (node, prefixes) = (&split.slots[at].node, &split.below[at]);
        }
        let at = prefixes.binary_search_by_key(&(first, len), Prefix::order).ok()?;
        Some(prefixes[at].value)
    }

    /// Moves what lookups read into memory by itself, in the order of addresses: after many changes it lies
    /// between what they do not read, on twice as many pages.
    pub(crate) fn compact(&mut self) {
        let mut old = Vec::new();
        compact(&mut self.root.node, &mut old);
    }

    /// Gives a prefix a value. Returns the one that it had.
    pub(crate) fn insert(&mut self, first: K, len: u8, value: u32) -> Option<u32> {
        let Place { node, prefixes } = &mut self.root;
        let old = insert(node, prefixes, 0, Prefix { first: first.first(len), len, value });
        for byte in first.first(len).slot(0)..=first.last(len).slot(0) {
            self.first_bytes[byte / 64] |= 1 << (byte % 64);
        }
        self.count += usize::from(old.is_none());
        old
    }

    /// Takes a prefix out. Returns its value.
    pub(crate) fn remove(&mut self, first: K, len: u8) -> Option<u32> {
        let Place { node, prefixes } = &mut self.root;
        let old = remove(node, prefixes, 0, (first.first(len), len));
        self.count -= usize::from(old.is_some());
        old
    }
}

/// Copies the words of all leaves below a node. The old ones stay until all are copied.
fn compact<K: Key>(node: &mut Node<K>, old: &mut Vec<Arc<[K::Word]>>) {
    if let Node::Leaf(words) = node {
        old.push(std::mem::replace(words, Arc::from(&**words)));
    } else if let Some(split) = split_mut(node) {
        split.slots.iter_mut().for_each(|slot| compact(&mut slot.node, old));
    }
}

fn split_in<K: Key>(node: &Node<K>) -> Option<&Split<K>> {
    match node {
        Node::Other(other) => match &**other {
            Other::Split(split) => Some(split),
            Other::Wide(_) => None,
        },
        Node::Leaf(_) => None,
    }
}

/// Returns the split of a node, to be changed: a copy, if a reader may have it.
fn split_mut<K: Key>(node: &mut Node<K>) -> Option<&mut Split<K>> {
    split_in(node)?;
    match node {
        Node::Other(other) => match Arc::make_mut(other) {
            Other::Split(split) => Some(split),
            Other::Wide(_) => None,
        },
        Node::Leaf(_) => None,
    }
}

fn insert<K: Key>(
    node: &mut Node<K>, prefixes: &mut Arc<[Prefix<K>]>, depth: u8, prefix: Prefix<K>,
) -> Option<u32> {
    let Some(split) = split_in(node) else {
        let mut all = prefixes.to_vec();
        let old = put(&mut all, prefix);
        if all.len() > LEAF_PREFIXES_MAX {
            (*node, *prefixes) = (split_of(&all), [].into());
        } else {
            (*node, *prefixes) = (leaf(&all, depth), all.into());
        }
        return old;
    };
    let shared = prefix.first.common(split.base).min(prefix.len);
    if shared < split.depth {
        *node = above(split.base, split.depth, node.clone(), shared);
    }
    split_mut(node)?.insert(prefix)
}

fn remove<K: Key>(
    node: &mut Node<K>, prefixes: &mut Arc<[Prefix<K>]>, depth: u8, place: (K, u8),
) -> Option<u32> {
    if let Some(split) = split_in(node) {
        let shared = place.0.common(split.base).min(place.1);
        return if shared < split.depth { None } else { split_mut(node)?.remove(place) };
    }
    let at = prefixes.binary_search_by_key(&place, Prefix::order).ok()?;
    let mut all = prefixes.to_vec();
    let old = all.remove(at).value;
    (*node, *prefixes) = (leaf(&all, depth), all.into());
    Some(old)
}

impl<K: Key> Split<K> {
    fn new(base: K, depth: u8) -> Self {
        let (empty, none) = (Node::Leaf([].into()), Arc::from([]));
        let slots = (0..256).map(|_| Slot { best: 0, node: empty.clone() }).collect();
        let below = (0..256).map(|_| Arc::clone(&none)).collect();
        Self { base: base.first(depth), depth, own: Vec::new(), slots, below }
    }

    fn insert(&mut self, prefix: Prefix<K>) -> Option<u32> {
        let at = prefix.first.slot(self.depth);
        if prefix.len > self.depth + 8 {
            return insert(&mut self.slots[at].node, &mut self.below[at], self.depth + 8, prefix);
        }
        let old = put(&mut self.own, prefix);
        self.paint(prefix);
        old
    }

    fn remove(&mut self, place: (K, u8)) -> Option<u32> {
        let at = place.0.slot(self.depth);
        if place.1 > self.depth + 8 {
            return remove(&mut self.slots[at].node, &mut self.below[at], self.depth + 8, place);
        }
        let at = self.own.binary_search_by_key(&place, Prefix::order).ok()?;
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
    Node::Other(Arc::new(Other::Split(split)))
}

/// Returns a split of at most `shared` bits that holds `inner`, a split of more.
fn above<K: Key>(base: K, depth: u8, inner: Node<K>, shared: u8) -> Node<K> {
    let mut outer = Split::new(base, depth_of(shared, depth - 8));
    let at = base.slot(outer.depth);
    outer.slots[at].node = inner;
    Node::Other(Arc::new(Other::Split(outer)))
}

/// Splits are at multiples of eight bits, so that one fits between any two.
fn depth_of(shared: u8, most: u8) -> u8 {
    (shared / 8 * 8).min(most)
}

#[cfg(test)]
mod tests;
