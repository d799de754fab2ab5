//! Frames that were dropped before they could be received, by reason.

/// Calls between two reads of the kernel's count. That is seconds of traffic at most; the count of 32 bits
/// takes minutes to wrap at any rate possible.
const READ_EVERY: u32 = 1 << 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Drops {
    kernel: u64,
    pub(super) malformed: u64,
    pub(super) truncated: u64,
    pub(super) too_long: u64,
    /// Calls until the kernel's count is read again.
    read_due: u32,
}

impl Default for Drops {
    fn default() -> Self {
        Self { kernel: 0, malformed: 0, truncated: 0, too_long: 0, read_due: READ_EVERY }
    }
}

impl Drops {
    /// Notes a call to receive. Returns true if the kernel's count should be read now, under any load.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.read_due -= 1;
        if self.read_due == 0 {
            self.read_due = READ_EVERY;
        }
        self.read_due == READ_EVERY
    }

    /// Adds the frames that the kernel has dropped since the last read.
    pub(super) fn add_kernel(&mut self, drops: u32) {
        self.kernel += u64::from(drops);
    }

    /// Shows each reason and its count: the kernel's always, others if there are any.
    pub(super) fn show(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("kernel", self.kernel);
        let others =
            [("malformed", self.malformed), ("truncated", self.truncated), ("too-long", self.too_long)];
        for (reason, count) in others.into_iter().filter(|(_, count)| *count > 0) {
            see(reason, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_count_is_read_under_traffic_and_sums_up_beyond_32_bits() {
        let (mut drops, mut readings) = (Drops::default(), 0);
        for _ in 0..3 * READ_EVERY {
            if drops.is_due() {
                drops.add_kernel(u32::MAX);
                readings += 1;
            }
        }
        drops.truncated = 7;
        let mut shown = Vec::new();
        drops.show(&mut |reason, count| shown.push((reason, count)));
        assert_eq!((readings, shown), (3, vec![("kernel", 3 * u64::from(u32::MAX)), ("truncated", 7)]));
    }
}
