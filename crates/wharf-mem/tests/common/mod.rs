//! A region with its free buffers, for tests.

use wharf_mem::{Batch, Frame, FreeFrame, MemError, Region, RegionSpec};

pub struct Pool {
    pub region: Region,
    pub free: Vec<FreeFrame>,
}

impl Pool {
    pub fn new(frames: u32, frame_bytes: u32, headroom_bytes: u32) -> Self {
        let (region, free) =
            Region::new(RegionSpec { frames, frame_bytes, headroom_bytes, huge_pages: false }).unwrap();
        Self { region, free }
    }

    /// Takes one frame of `len_bytes`, charged to `sender`.
    pub fn take(&mut self, sender: u16, len_bytes: u32) -> Result<Frame, MemError> {
        let mut one = Batch::new(1);
        self.region.take(&mut self.free, &mut one, 1, sender, len_bytes, |_| {})?;
        Ok(one.pop().expect("the pool is empty"))
    }

    pub fn give(&mut self, frame: Frame) {
        self.region.give_one(frame, &mut self.free).unwrap();
    }

    /// Asserts that every buffer is here, once.
    pub fn assert_whole(&self) {
        let mut indices: Vec<_> = self.free.iter().map(FreeFrame::index).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..self.region.spec().frames), "a buffer is lost or doubled");
    }
}

/// Frees the pool's number, if all buffers are here: a process has only 63.
impl Drop for Pool {
    fn drop(&mut self) {
        self.region.retire(std::mem::take(&mut self.free));
    }
}
