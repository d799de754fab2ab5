//! `Histogram`: counts of values, exact to one part in sixteen. One thread writes; any thread reads at any
//! time.

use wharf_core::counters::Tally;

/// Values below this are counted exactly; above, each doubling has sixteen buckets.
const EXACT: u64 = 16;
const STEPS_LOG2: u32 = 4;
const BUCKETS: usize = (64 - STEPS_LOG2 as usize + 1) << STEPS_LOG2;

/// A histogram of whole numbers of any size; 8 KiB.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[Tally]>,
    count: Tally,
    sum: Tally,
    max: Tally,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| Tally::default()).collect();
        Self { buckets, count: Tally::default(), sum: Tally::default(), max: Tally::default() }
    }
}

impl Histogram {
    /// Counts `value`. For the one writer.
    pub fn record(&self, value: u64) {
        self.buckets[bucket_of(value)].add(1);
        self.count.add(1);
        self.sum.add(value);
        self.max.set(self.max.get().max(value));
    }

    /// Adds the counts of `other`. For the one writer.
    pub fn add(&self, other: &Histogram) {
        self.buckets.iter().zip(&other.buckets).for_each(|(ours, theirs)| ours.add(theirs.get()));
        self.count.add(other.count.get());
        self.sum.add(other.sum.get());
        self.max.set(self.max.get().max(other.max.get()));
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns the sum of the values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Returns the greatest value, or 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max.get()
    }

    /// Returns a value that `permille` thousandths of the values do not exceed, at most a sixteenth too
    /// large; 0 if there is none.
    pub fn at_permille(&self, permille: u64) -> u64 {
        let wanted = (u128::from(self.count()) * u128::from(permille)).div_ceil(1000) as u64;
        let mut seen = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.get();
            if seen >= wanted.max(1) {
                return last_of(at).min(self.max());
            }
        }
        self.max()
    }
}

fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS_LOG2;
    ((shift as usize + 1) << STEPS_LOG2) + ((value >> shift) - EXACT) as usize
}

/// Returns the greatest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let (doubling, step) = (bucket >> STEPS_LOG2, bucket as u64 & (EXACT - 1));
    match doubling {
        0 => step,
        _ => (((EXACT + step + 1) as u128) << (doubling - 1)).saturating_sub(1).min(u64::MAX.into()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_in_order_and_are_narrow() {
        let mut last = None;
        for bucket in 0..BUCKETS {
            let (first, end) = (last.map_or(0, |last: u64| last + 1), last_of(bucket));
            assert_eq!((bucket_of(first), bucket_of(end)), (bucket, bucket));
            assert!(end - first <= first / 16, "{first} to {end}");
            last = Some(end);
        }
        assert_eq!(last, Some(u64::MAX));
    }
}
