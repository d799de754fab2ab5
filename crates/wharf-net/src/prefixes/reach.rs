//! A lookup's way: down to a node, and then a search in it.

use super::leaf::{in_ranges, in_words};
use super::{Found, Key, Node, Other, Prefixes, split_in};

/// The node that has what a lookup searches, and the best that was found above it.
#[derive(Debug)]
pub(crate) struct Reached<'a, K: Key> {
    node: &'a Node<K>,
    best: u32,
    depth: u8,
}

impl<K: Key> Clone for Reached<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key> Copy for Reached<'_, K> {}

impl<K: Key> Reached<'_, K> {
    /// Reads both ends of a leaf.
    #[inline(always)]
    pub(crate) fn touch(&self) -> u16 {
        let Node::Leaf(words) = self.node else { return 0 };
        let low = |word: Option<&K::Word>| word.map_or(0, |word| K::low(*word));
        low(words.first()) ^ low(words.last())
    }
}

impl<K: Key> Prefixes<K> {
    /// Goes down to the node that a lookup searches, without a look at it. `None` if no prefix covers the
    /// key.
    #[inline(always)]
    pub(crate) fn reach(&self, key: K) -> Option<Reached<'_, K>> {
        if !self.may_cover(key) {
            return None;
        }
        let mut reached = Reached { best: 0, node: &self.root.node, depth: 0 };
        while let Some(split) = split_in(reached.node).filter(|split| key.common(split.base) >= split.depth) {
            let slot = &split.slots[key.slot(split.depth)];
            let best = if slot.best == 0 { reached.best } else { slot.best };
            reached = Reached { best, node: &slot.node, depth: split.depth + 8 };
        }
        Some(reached)
    }

    /// Searches the node that was reached.
    #[inline(always)]
    pub(crate) fn search(&self, reached: Reached<'_, K>, key: K) -> Option<Found> {
        let inner = match reached.node {
            Node::Leaf(words) => in_words::<K>(words, key.word(reached.depth, u16::MAX)),
            Node::Other(other) => match &**other {
                Other::Wide(ranges) => in_ranges(ranges, key),
                Other::Split(_) => 0,
            },
        };
        let best = if inner == 0 { reached.best } else { inner };
        (best != 0).then_some(Found(best))
    }
}
