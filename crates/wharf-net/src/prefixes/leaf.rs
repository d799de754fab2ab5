//! A leaf: its ranges from its prefixes, and the search in them.

use super::{Key, Node, Other, Prefix, Range, VALUES_MAX};
use std::sync::Arc;

/// Words are kept in rows of so many, which are compared at a time.
const ROW: usize = 16;

/// Returns a leaf of sorted prefixes, with the ranges that they cut the addresses into.
pub(super) fn leaf<K: Key>(prefixes: &[Prefix<K>], depth: u8) -> Node<K> {
    let (mut ranges, mut open): (Vec<Range<K>>, Vec<Prefix<K>>) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        close(&mut ranges, &mut open, Some(prefix.first));
        begin(&mut ranges, prefix.first, prefix.best());
        open.push(*prefix);
    }
    close(&mut ranges, &mut open, None);
    let fits = |it: &Prefix<K>| {
        let low = (u32::from(it.len) + 1) * K::WORD_VALUES;
        it.len <= depth + K::WORD_BITS && it.value + 1 < K::WORD_VALUES && low <= 1 << 16
    };
    if !prefixes.iter().all(fits) {
        return Node::Other(Arc::new(Other::Wide(ranges.into())));
    }
    // What begins beyond the addresses of this leaf is never looked for.
    let is_here = |range: &&Range<K>| range.start.common(prefixes[0].first) >= depth;
    let low = |best: u32| (best / VALUES_MAX * K::WORD_VALUES + best % VALUES_MAX) as u16;
    let words = ranges.iter().filter(is_here).map(|range| range.start.word(depth, low(range.best)));
    let count = words.clone().count();
    let filler = (count..(count + 1).next_multiple_of(ROW)).map(|_| prefixes[0].first.word(K::BITS, 0));
    Node::Leaf(if count == 0 { [].into() } else { filler.chain(words).collect() })
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

/// Searches a leaf of words. Returns what is found, or 0. Nothing here depends on what the words are but the
/// number that comes out, so that the words of several lookups are on their way from memory at a time.
#[inline(always)]
pub(super) fn in_words<K: Key>(words: &[K::Word], probe: K::Word) -> u32 {
    let mut count = 0;
    for row in words.chunks_exact(ROW) {
        count += row.iter().map(|word| u32::from(*word <= probe)).sum::<u32>();
    }
    // The first word of a row is not beyond any address.
    let low = words.get((count as usize).wrapping_sub(1)).map_or(0, |word| u32::from(K::low(*word)));
    low / K::WORD_VALUES * VALUES_MAX + low % K::WORD_VALUES
}

pub(super) fn in_ranges<K: Key>(ranges: &[Range<K>], key: K) -> u32 {
    let at = ranges.partition_point(|range| range.start <= key);
    if at == 0 { 0 } else { ranges[at - 1].best }
}
