//! Leaves: the prefixes below a slot of a split, as words among those of all leaves of the split. A leaf
//! has one of two forms.
//!
//! A list has each prefix with its number, the longest first. It is for a few prefixes of any length.
//!
//! A map has a bit for each prefix that there may be, from one bit longer than the slot's to eight: for `n`
//! bits behind the slot's, bit `1 << n | bits`, in eight words. A word of counts follows: its byte `n` is the
//! number of bits set in the words before word `n`. The values follow in the order of the bits, each with as
//! few bits as the largest wants: 8, 16 or 32.

use super::{Key, Prefix, VALUES_MAX};

/// The most prefixes of a list. A search goes through all of them.
pub(super) const LIST_MAX: usize = 16;
/// A map is made of more prefixes than this: it takes as long as a list of so many.
const LIST_BEFORE_MAP_MAX: usize = 4;
/// The most prefixes of a map: they are counted in eight bits, and a split with as many is as small.
const MAP_MAX: usize = 192;
/// The words of a map before its values.
const HEAD: usize = 9;

/// Where a slot's prefixes are: an index in the upper bits, and in the lower eight the form. The default is
/// that there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Below(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Of so many prefixes; 0: nothing is below the slot.
    List(usize),
    /// With values of `1 << n` bits.
    Map(u32),
    /// The index is that of another split.
    Split,
}

const MAP: u32 = 32;
const SPLIT: u32 = 64;

impl Below {
    pub(super) fn new(index: usize, form: Form) -> Self {
        let form = match form {
            Form::List(count) => count as u32,
            Form::Map(bits) => MAP | bits,
            Form::Split => SPLIT,
        };
        Self((index as u32) << 8 | form)
    }

    #[inline(always)]
    pub(super) fn form(self) -> Form {
        match self.0 & 255 {
            SPLIT => Form::Split,
            form if form & MAP != 0 => Form::Map(form & 7),
            count => Form::List(count as usize),
        }
    }

    #[inline(always)]
    pub(super) fn is_split(self) -> bool {
        self.0 & SPLIT != 0
    }

    #[inline(always)]
    pub(super) fn index(self) -> usize {
        (self.0 >> 8) as usize
    }
}

/// The bits of a map's first word that stand for the prefixes of up to five bits around one of five.
const AROUND: [u64; 32] = {
    let (mut around, mut bits) = ([0; 32], 0);
    while bits < 32 {
        let mut bit = 32 | bits;
        while bit > 1 {
            around[bits] |= 1 << bit;
            bit >>= 1;
        }
        bits += 1;
    }
    around
};

/// Returns the bit of the longest prefix of a map that covers the address with this byte; 0: none does.
#[inline(always)]
fn longest(head: &[u64; HEAD], byte: usize) -> usize {
    let has = |bit: usize| head[bit / 64] >> (bit % 64) & 1 != 0;
    match () {
        () if has(256 | byte) => 256 | byte,
        () if has(128 | byte >> 1) => 128 | byte >> 1,
        () if has(64 | byte >> 2) => 64 | byte >> 2,
        () => (head[0] & AROUND[byte >> 3]).checked_ilog2().unwrap_or(0) as usize,
    }
}

/// Reads both ends of what a search reads before it reads a value.
#[inline(always)]
pub(super) fn ends(head: &[u64; HEAD]) -> u64 {
    head[0] ^ head[HEAD - 1]
}

/// Returns the index of a bit's value.
#[inline(always)]
fn rank(head: &[u64; HEAD], bit: usize) -> usize {
    let (word, before) = (bit / 64, (1 << (bit % 64)) - 1);
    (head[HEAD - 1] >> (8 * word)) as usize % 256 + (head[word] & before).count_ones() as usize
}

#[inline(always)]
fn value(values: &[u64], at: usize, bits: u32) -> u32 {
    let bit = at << bits;
    let word = values.get(bit / 64).map_or(0, |word| word >> (bit % 64));
    (word & ((1 << (1 << bits)) - 1)) as u32
}

/// Returns the number of the longest prefix of a map that covers the address with this byte; 0: none does.
#[inline(always)]
pub(super) fn in_map(words: &[u64], bits: u32, byte: usize, depth: u8) -> u32 {
    let Some((head, values)) = words.split_first_chunk() else { return 0 };
    match longest(head, byte) {
        0 => 0,
        bit => (u32::from(depth) + bit.ilog2()) * VALUES_MAX + value(values, rank(head, bit), bits) + 1,
    }
}

/// A leaf among the words of its split. All its prefixes share `depth` bits with `base`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a, K> {
    pub(super) form: Form,
    /// From its first word on.
    pub(super) words: &'a [u64],
    pub(super) base: K,
    pub(super) depth: u8,
}

impl<K: Key> Leaf<'_, K> {
    /// Calls `take` with each prefix, in no order.
    pub(super) fn each(&self, mut take: impl FnMut(Prefix<K>)) {
        match self.form {
            Form::List(count) => {
                for words in self.words[..count * K::WORDS].chunks_exact(K::WORDS) {
                    let (first, number) = K::read(words);
                    take(Prefix::of(first, number));
                }
            }
            Form::Map(bits) => {
                let (head, values) = self.words.split_at(HEAD);
                let all = (2..512).filter(|bit| head[bit / 64] >> (bit % 64) & 1 != 0);
                for (at, bit) in all.enumerate() {
                    let more = bit.ilog2() as u8;
                    let byte = bit << (8 - more) & 255;
                    let first = self.base.with(byte, K::BITS - 8 - self.depth);
                    take(Prefix { first, len: self.depth + more, value: value(values, at, bits) });
                }
            }
            Form::Split => {}
        }
    }

    /// Returns the prefixes in their order.
    pub(super) fn prefixes(&self) -> Vec<Prefix<K>> {
        let mut all = Vec::new();
        self.each(|prefix| all.push(prefix));
        all.sort_unstable_by_key(Prefix::order);
        all
    }

    /// Returns the number of its words.
    pub(super) fn len(&self) -> usize {
        match self.form {
            Form::List(count) => count * K::WORDS,
            Form::Map(bits) => {
                let (head, _) = self.words.split_at(HEAD - 1);
                let count: u32 = head.iter().map(|word| word.count_ones()).sum();
                HEAD + ((count as usize) << bits).div_ceil(64)
            }
            Form::Split => 0,
        }
    }
}

/// Returns the form and the words of a leaf. `None` if the prefixes are too many for one.
pub(super) fn words_of<K: Key>(prefixes: &[Prefix<K>], depth: u8) -> Option<(Form, Vec<u64>)> {
    let is_near = || prefixes.iter().all(|prefix| prefix.len <= depth + 8);
    if prefixes.len() > LIST_BEFORE_MAP_MAX && prefixes.len() <= MAP_MAX && is_near() {
        return Some(map_of(prefixes, depth));
    }
    if prefixes.len() > LIST_MAX {
        return None;
    }
    let mut sorted = prefixes.to_vec();
    sorted.sort_by_key(|prefix| !prefix.len);
    let mut words = Vec::with_capacity(sorted.len() * K::WORDS);
    sorted.iter().for_each(|prefix| prefix.first.write(prefix.number(), &mut words));
    Some((Form::List(sorted.len()), words))
}

fn map_of<K: Key>(prefixes: &[Prefix<K>], depth: u8) -> (Form, Vec<u64>) {
    let largest = prefixes.iter().map(|prefix| prefix.value).max().unwrap_or(0);
    let bits = if largest < 1 << 8 {
        3
    } else if largest < 1 << 16 {
        4
    } else {
        5
    };
    let bit_of = |prefix: &Prefix<K>| {
        let more = prefix.len - depth;
        1 << more | prefix.first.byte(K::BITS - 8 - depth) >> (8 - more)
    };
    let mut head = [0_u64; HEAD];
    for bit in prefixes.iter().map(bit_of) {
        head[bit / 64] |= 1 << (bit % 64);
    }
    let mut count = 0;
    for word in 0..HEAD - 1 {
        head[HEAD - 1] |= count << (8 * word);
        count += u64::from(head[word].count_ones());
    }
    let mut words = head.to_vec();
    words.resize(HEAD + (prefixes.len() << bits).div_ceil(64), 0);
    for prefix in prefixes {
        let at = rank(&head, bit_of(prefix)) << bits;
        words[HEAD + at / 64] |= u64::from(prefix.value) << (at % 64);
    }
    (Form::Map(bits), words)
}
