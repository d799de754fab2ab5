//! Sets of bytes, as ranges of a free-running 64-bit position.

use std::collections::BTreeMap;

/// Disjoint ranges that do not touch, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges {
    /// The end of each range, by its start.
    by_start: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Inserts `from..to`.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        while let Some((&start, &end)) = self.by_start.range(..=to).next_back() {
            if end < from {
                break;
            }
            (from, to) = (from.min(start), to.max(end));
            self.by_start.remove(&start);
        }
        self.by_start.insert(from, to);
    }

    /// Removes all below `position`.
    pub fn remove_below(&mut self, position: u64) {
        while let Some((&start, &end)) = self.by_start.first_key_value() {
            if start >= position {
                break;
            }
            self.by_start.remove(&start);
            if end > position {
                self.insert(position, end);
            }
        }
    }

    /// Returns the end of the first range if it begins at `position` or before.
    pub fn end_at(&self, position: u64) -> Option<u64> {
        self.by_start.first_key_value().filter(|&(&start, _)| start <= position).map(|(_, &end)| end)
    }

    /// Returns the end of the range that holds `position`.
    pub fn end_of(&self, position: u64) -> Option<u64> {
        let (_, &end) = self.by_start.range(..=position).next_back()?;
        (end > position).then_some(end)
    }

    /// Returns the start of the first range behind `position`.
    pub fn next_after(&self, position: u64) -> Option<u64> {
        self.by_start.range(position + 1..).next().map(|(&start, _)| start)
    }

    /// Returns the end of the last range.
    pub fn end(&self) -> Option<u64> {
        self.by_start.last_key_value().map(|(_, &end)| end)
    }

    /// Returns the number of bytes within `from..to`.
    pub fn bytes_within(&self, from: u64, to: u64) -> u64 {
        let clipped = |(&start, &end): (&u64, &u64)| end.min(to).saturating_sub(start.max(from));
        self.by_start.range(..to).map(clipped).sum()
    }

    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        self.by_start.clear();
    }

    /// Returns all ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_start.iter().map(|(&start, &end)| (start, end))
    }
}
