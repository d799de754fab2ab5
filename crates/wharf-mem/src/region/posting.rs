//! `Posting`: how many frames of a region a device may have posted for arrivals.

use super::Region;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Frames that a device may post at least, if it wants so many; a sixteenth of a small region.
const LEAST: u32 = 64;

/// The frames of a region that one device may have posted for arrivals, until this is dropped. All devices
/// together have three quarters of the region, so that senders find some: the first have what they want, and
/// a later one has what they leave, or a few.
#[derive(Debug)]
pub struct Posting {
    region: Arc<Region>,
    frames: u32,
}

impl Posting {
    /// Claims up to `wanted` frames of `region`.
    pub fn of(region: &Arc<Region>, wanted: u32) -> Self {
        let all = region.spec.frames;
        let claimed = region.posting.fetch_add(wanted, Relaxed);
        let left = (all / 4 * 3).saturating_sub(claimed);
        let frames = wanted.min(left.max(LEAST.min(all / 16)).max(1));
        region.posting.fetch_sub(wanted - frames, Relaxed);
        Self { region: region.clone(), frames }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u32 {
        self.frames
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.region.posting.fetch_sub(self.frames, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionSpec;

    #[test]
    fn three_receivers_of_a_region_then_a_quarter_is_left_but_for_a_few() {
        let spec = RegionSpec { frames: 4096, frame_bytes: 256, headroom_bytes: 64, huge_pages: false };
        let region = Arc::new(Region::new(spec).unwrap().0);
        let claims = [(); 3].map(|()| Posting::of(&region, 2048));
        assert_eq!(claims.each_ref().map(Posting::frames), [2048, 1024, 64]);
        drop(claims);
        assert_eq!(Posting::of(&region, 4000).frames(), 3072);
        assert_eq!(region.posting.load(Relaxed), 0);
    }
}
