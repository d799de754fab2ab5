//! `Joining`: whether a run of datagrams may be one segmented send.
//!
//! udp(7), `UDP_SEGMENT`; the kernel's `udp_send_skb`: all datagrams have one length but the last, which may
//! be shorter; at most 64 of them, and 65 507 bytes. The kernel may reject any such send: a datagram exceeds
//! the MTU, an adapter cannot finish checksums, or IPsec is on the way (EINVAL, EMSGSIZE, EIO). The datagrams
//! of a rejected send go one by one.

/// Datagrams in one send: UDP_MAX_SEGMENTS of Linux before 6.9.
const SEGMENTS_MAX: usize = 64;
/// Most bytes in one send: the payload of the longest datagram over IPv4.
const RUN_BYTES_MAX: usize = 65_507;
/// Frames after the first rejection, and most frames, until joining is tried again.
const PAUSE_FRAMES: usize = 64;
const PAUSE_FRAMES_MAX: usize = 1 << 16;

/// Datagrams that may be joined now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    is_on: bool,
    /// Datagrams of this length or longer are not joined now.
    refused_bytes: usize,
    /// Frames until they are joined again, and the number of frames after the next rejection.
    left_frames: usize,
    pause_frames: usize,
}

impl Joining {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, refused_bytes: usize::MAX, left_frames: 0, pause_frames: PAUSE_FRAMES }
    }

    /// Notes that the kernel has rejected a send of segments of `bytes` each.
    #[cold]
    pub(super) fn refused(&mut self, bytes: usize) {
        self.refused_bytes = self.refused_bytes.min(bytes);
        self.left_frames = self.pause_frames;
        self.pause_frames = (2 * self.pause_frames).min(PAUSE_FRAMES_MAX);
    }

    /// Notes that `frames` frames have been sent.
    #[inline]
    pub(super) fn sent(&mut self, frames: usize) {
        if self.left_frames > 0 {
            self.left_frames = self.left_frames.saturating_sub(frames);
            if self.left_frames == 0 {
                self.refused_bytes = usize::MAX;
            }
        }
    }

    /// Notes that a segmented send went through that a pause would have prevented.
    #[inline]
    pub(super) fn went_well(&mut self) {
        if self.left_frames == 0 {
            self.pause_frames = PAUSE_FRAMES;
        }
    }

    /// Returns the bytes of a super-packet with datagrams of `bytes` each that one send may carry: one
    /// datagram if `apart`.
    pub(super) fn whole_bytes(&self, bytes: usize, apart: bool) -> usize {
        if apart || !self.allows(bytes) {
            return bytes;
        }
        (RUN_BYTES_MAX / bytes).clamp(1, SEGMENTS_MAX) * bytes
    }

    #[inline]
    fn allows(&self, bytes: usize) -> bool {
        self.is_on && bytes > 0 && bytes < self.refused_bytes
    }
}

/// Consecutive datagrams to one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<T> {
    pub(super) to: T,
    segment_bytes: usize,
    segments: usize,
    /// True if another datagram may follow.
    is_open: bool,
}

impl<T: PartialEq> Run<T> {
    /// Makes a run with a first datagram of `bytes`, alone if `apart`.
    #[inline]
    pub(super) fn new(to: T, bytes: usize, joining: &Joining, apart: bool) -> Self {
        Self { to, segment_bytes: bytes, segments: 1, is_open: !apart && joining.allows(bytes) }
    }

    /// Adds a datagram of `bytes` to `to`, if it fits.
    #[inline]
    pub(super) fn add(&mut self, to: &T, bytes: usize) -> bool {
        // A datagram without bytes would not be a segment.
        let fits = self.is_open
            && bytes > 0
            && bytes <= self.segment_bytes
            && self.segments < SEGMENTS_MAX
            && self.segments * self.segment_bytes + bytes <= RUN_BYTES_MAX
            && self.to == *to;
        self.segments += usize::from(fits);
        self.is_open &= !fits || bytes == self.segment_bytes;
        fits
    }

    /// Returns the segment length for the kernel; `None` for a single datagram.
    pub(super) fn segment_bytes(&self) -> Option<u16> {
        (self.segments > 1).then_some(self.segment_bytes as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ON: Joining = Joining { is_on: true, refused_bytes: usize::MAX, left_frames: 0, pause_frames: 64 };

    /// Returns the lengths of the runs that datagrams of these lengths make.
    fn runs(joining: &Joining, lens: &[usize]) -> Vec<usize> {
        let mut runs: Vec<Run<()>> = Vec::new();
        for &len in lens {
            if !runs.last_mut().is_some_and(|run| run.add(&(), len)) {
                runs.push(Run::new((), len, joining, false));
            }
        }
        runs.iter().map(|run| run.segments).collect()
    }

    #[test]
    fn runs_are_of_one_length_but_for_the_last() {
        assert_eq!(runs(&ON, &[100, 100, 100]), [3]);
        assert_eq!(runs(&ON, &[100, 100, 99, 99]), [3, 1]);
        assert_eq!(runs(&ON, &[100, 99, 100]), [2, 1]);
        assert_eq!(runs(&ON, &[99, 100]), [1, 1]);
        assert_eq!(runs(&ON, &[0, 0, 5, 0]), [1, 1, 1, 1]);
        assert_eq!(runs(&ON, &[1; 130]), [64, 64, 2]);
        assert_eq!(runs(&ON, &[1200; 64]), [54, 10], "65 507 bytes");
        assert_eq!(runs(&ON, &[65_507, 1]), [1, 1]);
        assert_eq!(runs(&Joining::new(false), &[7, 7]), [1, 1]);
        let (mut run, one) = (Run::new(1, 7, &ON, false), Run::new(1, 7, &ON, true));
        assert!(!run.add(&2, 7) && run.add(&1, 7), "another place is no end");
        assert_eq!((run.segment_bytes(), one.segment_bytes()), (Some(7), None));
    }

    #[test]
    fn rejected_length_is_tried_again_after_growing_pauses() {
        let mut joining = ON;
        for pause in [64, 128, 256] {
            joining.refused(1400);
            assert_eq!(runs(&joining, &[1500, 1500, 1400, 1400, 1399, 1399]), [1, 1, 1, 1, 2], "of {pause}");
            joining.sent(pause - 1);
            assert!(!joining.allows(1400));
            joining.sent(1);
            assert!(joining.allows(1400), "after {pause}");
        }
        joining.refused(20);
        assert_eq!(runs(&joining, &[20, 20, 19, 19]), [1, 1, 2]);
        joining.went_well();
        joining.sent(512);
        joining.went_well();
        joining.refused(1400);
        assert_eq!(joining.left_frames, 64, "it had gone well meanwhile");
        for _ in 0..40 {
            joining.refused(1400);
        }
        assert_eq!(joining.left_frames, PAUSE_FRAMES_MAX);
    }

    proptest! {
        #[test]
        fn no_run_is_more_than_the_kernel_takes(lens in prop::collection::vec(0usize..9000, 0..200)) {
            let runs = runs(&ON, &lens);
            let mut left = &lens[..];
            for count in runs {
                let (run, rest) = left.split_at(count);
                prop_assert!(count <= 64 && (count == 1 || run.iter().sum::<usize>() <= 65_507));
                let last = run[count - 1];
                prop_assert!(count == 1 || 0 < last && last <= run[0]);
                prop_assert!(run[..count - 1].iter().all(|len| *len == run[0]));
                left = rest;
            }
            prop_assert!(left.is_empty());
        }
    }
}
