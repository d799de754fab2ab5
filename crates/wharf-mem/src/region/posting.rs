//! `Posting`: how many frames of a region a device may have posted for arrivals.

use super::Region;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Frames that a device may post at least, if it wants so many; a sixteenth of a small region.
const LEAST: u32 = 64;

/// What all devices of a region want to post, and what they have.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    frames: AtomicU32,
    devices: AtomicU32,
    claimed: AtomicU32,
}

/// The frames of a region that one device may have posted for arrivals, until this is dropped. All devices
/// together have three quarters of the region, so that senders find some: each has what it wants and the
/// others leave, or an equal part. Its part changes as others come and go. What a device has posted beyond
/// its part stays its own until it arrives.
#[derive(Debug)]
pub struct Posting {
    region: Arc<Region>,
    wanted: u32,
    claimed: AtomicU32,
}

impl Posting {
    /// Tells the region that a device wants to post up to `wanted` frames.
    pub fn of(region: &Arc<Region>, wanted: u32) -> Self {
        region.wishes.frames.fetch_add(wanted, Relaxed);
        region.wishes.devices.fetch_add(1, Relaxed);
        Self { region: region.clone(), wanted, claimed: AtomicU32::new(0) }
    }

    /// Claims frames for a device that has `posted` ones. Returns the number that it may have posted, now.
    pub fn frames(&self, posted: u32) -> u32 {
        let Wishes { frames, devices, claimed } = &self.region.wishes;
        let (all, own) = (self.region.spec.frames, self.claimed.load(Relaxed));
        let most = all / 4 * 3;
        let rest = most.saturating_sub(frames.load(Relaxed).saturating_sub(self.wanted));
        let part = most / devices.load(Relaxed).max(1);
        let free = most.saturating_sub(claimed.load(Relaxed).saturating_sub(own));
        let least = LEAST.min(all / 16).max(1);
        let now = self.wanted.min(rest.max(part).min(free).max(least));
        let claim = now.max(posted);
        if claim != own {
            // Several threads add to the sum and take from it: it wraps as they pass each other.
            claimed.fetch_add(claim.wrapping_sub(own), Relaxed);
            self.claimed.store(claim, Relaxed);
        }
        now
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.region.wishes.frames.fetch_sub(self.wanted, Relaxed);
        self.region.wishes.devices.fetch_sub(1, Relaxed);
        self.region.wishes.claimed.fetch_sub(*self.claimed.get_mut(), Relaxed);
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
        let frames = |claims: &[Posting]| claims.iter().map(|it| it.frames(0)).collect::<Vec<_>>();
        assert_eq!(frames(&claims), [2048]);
        claims.extend([2048, 2048].map(|wanted| Posting::of(&region, wanted)));
        assert_eq!(frames(&claims), [1024; 3]);
        claims[0] = Posting::of(&region, 100);
        assert_eq!(frames(&claims), [100, 1024, 1024]);
        claims.remove(1);
        assert_eq!(frames(&claims), [100, 2048]);
        drop(claims);
        assert_eq!(Posting::of(&region, 4000).frames(0), 3072);
        assert_eq!((region.wishes.frames.load(Relaxed), region.wishes.claimed.load(Relaxed)), (0, 0));
    }

    #[test]
    fn what_an_earlier_receiver_has_posted_is_its_own_until_it_arrives() {
        let spec = RegionSpec { frames: 256, frame_bytes: 256, headroom_bytes: 64, huge_pages: false };
        let region = Arc::new(Region::new(spec).unwrap().0);
        let first = Posting::of(&region, 128);
        assert_eq!(first.frames(0), 128);
        let others = [Posting::of(&region, 128), Posting::of(&region, 128)];
        assert_eq!(others.each_ref().map(|it| it.frames(0)), [64, 16], "three quarters are posted");
        assert_eq!((first.frames(100), others[1].frames(16)), (64, 28));
        assert_eq!((first.frames(64), others[1].frames(28)), (64, 64));
    }
}
