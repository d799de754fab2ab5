//! `Posting`: how many frames of a region a device may have posted for arrivals.

use super::Region;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Frames that a device may post at least, if it wants so many; a sixteenth of a small region.
const LEAST: u32 = 64;

/// What all devices of a region want to post.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    frames: AtomicU32,
    devices: AtomicU32,
}

/// The frames of a region that one device may have posted for arrivals, until this is dropped. All devices
/// together have three quarters of the region, so that senders find some: each has what it wants and the
/// others leave, or an equal part. Its part changes as others come and go.
#[derive(Debug)]
pub struct Posting {
    region: Arc<Region>,
    wanted: u32,
}

impl Posting {
    /// Claims up to `wanted` frames of `region`.
    pub fn of(region: &Arc<Region>, wanted: u32) -> Self {
        region.wishes.frames.fetch_add(wanted, Relaxed);
        region.wishes.devices.fetch_add(1, Relaxed);
        Self { region: region.clone(), wanted }
    }

    /// Returns the number of frames, now.
    pub fn frames(&self) -> u32 {
        let Wishes { frames, devices } = &self.region.wishes;
        let all = self.region.spec.frames;
        let most = all / 4 * 3;
        let rest = most.saturating_sub(frames.load(Relaxed).saturating_sub(self.wanted));
        let part = most / devices.load(Relaxed).max(1);
        self.wanted.min(rest.max(part).max(LEAST.min(all / 16)).max(1))
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.region.wishes.frames.fetch_sub(self.wanted, Relaxed);
        self.region.wishes.devices.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionSpec;

    #[test]
    fn three_receivers_of_a_region_then_each_has_a_part_that_grows_as_others_leave() {
        let spec = RegionSpec { frames: 4096, frame_bytes: 256, headroom_bytes: 64, huge_pages: false };
        let region = Arc::new(Region::new(spec).unwrap().0);
        let mut claims = vec![Posting::of(&region, 2048)];
        let frames = |claims: &[Posting]| claims.iter().map(Posting::frames).collect::<Vec<_>>();
        assert_eq!(frames(&claims), [2048]);
        claims.extend([2048, 2048].map(|wanted| Posting::of(&region, wanted)));
        assert_eq!(frames(&claims), [1024; 3]);
        claims[0] = Posting::of(&region, 100);
        assert_eq!(frames(&claims), [100, 1024, 1024]);
        claims.remove(1);
        assert_eq!(frames(&claims), [100, 2048]);
        drop(claims);
        assert_eq!(Posting::of(&region, 4000).frames(), 3072);
        assert_eq!(region.wishes.frames.load(Relaxed), 0);
    }
}
