//! Frames that were dropped before they could be received.

use wharf_core::counters;

/// Drops that the device has counted, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drops(Vec<(&'static str, u64)>);

impl Drops {
    /// Counts one.
    #[cold]
    pub fn add(&mut self, reason: &'static str) {
        self.add_count(reason, 1);
    }

    /// Counts `count` of one reason, which is shown from then on.
    #[cold]
    pub fn add_count(&mut self, reason: &'static str, count: u64) {
        counters::add(&mut self.0, reason, count);
    }

    /// Takes the counts of `other`, which is empty then.
    pub fn absorb(&mut self, other: &mut Self) {
        for (reason, count) in other.0.drain(..) {
            self.add_count(reason, count);
        }
    }

    /// Shows each reason and its count.
    pub fn show(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.0.iter().for_each(|&(reason, count)| see(reason, count));
    }
}

/// Calls between two reads of the kernel's count. That is seconds of traffic at most; the count of 32 bits
/// takes minutes to wrap at any rate possible.
const READ_EVERY: u32 = 1 << 16;

/// Drops that the kernel has counted, in more than its 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelDrops {
    total: u64,
    last: u32,
    /// Calls until the count is read again.
    read_due: u32,
}

impl Default for KernelDrops {
    fn default() -> Self {
        Self { total: 0, last: 0, read_due: READ_EVERY }
    }
}

impl KernelDrops {
    /// Notes a call to receive. Returns true if the kernel's count should be read now, under any load.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.read_due -= 1;
        if self.read_due == 0 {
            self.read_due = READ_EVERY;
        }
        self.read_due == READ_EVERY
    }

    /// Adds the drops since the last read.
    pub(crate) fn add(&mut self, drops: u32) {
        self.total += u64::from(drops);
    }

    /// Takes a count that the kernel never resets, and that wraps.
    pub(crate) fn count_to(&mut self, count: u32) {
        self.add(count.wrapping_sub(self.last));
        self.last = count;
    }

    /// Returns the drops so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Shows the count under `reason`, also if it is 0.
    pub(crate) fn show(&self, reason: &'static str, see: &mut dyn FnMut(&'static str, u64)) {
        see(reason, self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_count_is_read_under_traffic_and_sums_up_beyond_32_bits() {
        let (mut deltas, mut wraps, mut readings) = (KernelDrops::default(), KernelDrops::default(), 0);
        for _ in 0..3 * READ_EVERY {
            if deltas.is_due() {
                deltas.add(u32::MAX);
                readings += 1;
                wraps.count_to(u32::MAX.wrapping_mul(readings));
            }
        }
        let mut shown = Vec::new();
        deltas.show("ring-full", &mut |reason, count| shown.push((reason, count)));
        wraps.show("ring-full", &mut |reason, count| shown.push((reason, count)));
        assert_eq!((readings, shown), (3, vec![("ring-full", 3 * u64::from(u32::MAX)); 2]));
    }
}
