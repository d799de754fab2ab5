//! A table of prefixes, with the longest match. It is persistent: a clone costs a pointer, and a change
//! copies the few nodes on its way, so that readers keep the table that they have while the next is made.
//!
//! A split is a node of 256 slots, by eight bits of the address. Below a slot is another split, or a leaf:
//! few prefixes, or those of at most eight bits more, as a bit each. A prefix that ends within a split's
//! eight bits stays in the split, and is painted on its slots. So a change touches one node, however short
//! the prefix is.
//!
//! What a lookup reads is small: a slot has 8 bytes, and the leaves of a split are one array of words. A leaf
//! of 18 prefixes has 12 of them. A change copies that array once for each state that readers get.

mod key;
mod leaf;
mod split;

pub(crate) use key::Key;
use split::Split;
use std::sync::Arc;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix<K> {
    first: K,
    len: u8,
    value: u32,
}

impl<K: Key> Prefix<K> {
    fn of(first: K, number: u32) -> Self {
        Self { first, len: Found(number).len(), value: Found(number).value() }
    }

    fn order(&self) -> (K, u8) {
        (self.first, self.len)
    }

    /// Returns what a lookup finds.
    fn number(&self) -> u32 {
        u32::from(self.len) * VALUES_MAX + self.value + 1
    }

    fn covers(&self, key: K) -> bool {
        key.common(self.first) >= self.len
    }
}

/// Prefixes with a value each.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<K: Key> {
    root: Arc<Split<K>>,
    count: usize,
}

impl<K: Key> Default for Prefixes<K> {
    fn default() -> Self {
        Self { root: Arc::new(Split::new(K::ZERO, 0)), count: 0 }
    }
}

impl<K: Key> Prefixes<K> {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the longest prefix that covers `key`.
    #[inline(always)]
    pub(crate) fn longest(&self, key: K) -> Option<Found> {
        let number = self.root.longest(key);
        (number != 0).then_some(Found(number))
    }

    /// True if a prefix may cover addresses with this first byte.
    pub(crate) fn has_some(&self, first_byte: usize) -> bool {
        self.root.has_some(first_byte)
    }

    /// Reads what a lookup of `key` will read, so that it is near then. Keep what it returns: no compiler
    /// may leave the reading out.
    #[inline(always)]
    pub(crate) fn touch(&self, key: K) -> u64 {
        self.root.touch(key)
    }

    /// Returns the longest prefix that covers `key` and is shorter than `len`: where the longest was of no
    /// use.
    pub(crate) fn shorter(&self, key: K, len: u8) -> Option<Found> {
        let mut best: Option<Prefix<K>> = None;
        self.root.on_the_way(key, |prefix| {
            let is_better = prefix.len < len && best.is_none_or(|best| prefix.len > best.len);
            if is_better && prefix.covers(key) {
                best = Some(prefix);
            }
        });
        best.map(|prefix| Found(prefix.number()))
    }

    /// Returns the value of exactly this prefix.
    pub(crate) fn get(&self, first: K, len: u8) -> Option<u32> {
        self.root.get((first, len))
    }

    /// Makes a table smaller, and lookups faster, after many changes.
    pub(crate) fn compact(&mut self) {
        Arc::make_mut(&mut self.root).pack_all();
    }

    /// Gives a prefix a value. Returns the one that it had.
    pub(crate) fn insert(&mut self, first: K, len: u8, value: u32) -> Option<u32> {
        let old = Arc::make_mut(&mut self.root).insert(Prefix { first: first.first(len), len, value });
        self.count += usize::from(old.is_none());
        old
    }

    /// Takes a prefix out. Returns its value.
    pub(crate) fn remove(&mut self, first: K, len: u8) -> Option<u32> {
        let old = Arc::make_mut(&mut self.root).remove((first.first(len), len));
        self.count -= usize::from(old.is_some());
        old
    }
}

/// Puts a prefix where it belongs. Returns the value that it had.
fn put<K: Key>(prefixes: &mut Vec<Prefix<K>>, prefix: Prefix<K>) -> Option<u32> {
    match prefixes.binary_search_by_key(&prefix.order(), Prefix::order) {
        Ok(at) => Some(std::mem::replace(&mut prefixes[at], prefix).value),
        Err(at) => {
            prefixes.insert(at, prefix);
            None
        }
    }
}

#[cfg(test)]
mod tests;
