//! `TestBed`: the parts of a machine before its queues: a clock, frames, and the host memory in which a NIC
//! finds them.

use super::buffers::Buffers;
use super::host_memory::{HostMemory, SharedMemory, open};
use crate::engine::VirtualClock;
use std::sync::Arc;
use wharf_core::pool::{PagePool, PoolError};

pub(super) struct TestBed {
    pub(super) clock: Arc<VirtualClock>,
    pub(super) pool: PagePool,
    pub(super) memory: SharedMemory,
    pub(super) buffers: Buffers,
}

impl TestBed {
    /// Creates a test bed with `frames`, in which packets may begin every `granule_bytes`.
    pub(super) fn with_granule(frames: u32, frame_bytes: u32, granule_bytes: u32) -> Result<Self, PoolError> {
        let clock = Arc::new(VirtualClock::default());
        let pool = PagePool::builder()
            .frames(frames)
            .frame_bytes(frame_bytes)
            .huge_pages(false)
            .clock(clock.clone())
            .build()?;
        let memory = HostMemory::shared();
        let buffers = Buffers::with_granule(pool.region(), granule_bytes, &mut open(&memory));
        Ok(Self { clock, pool, memory, buffers })
    }
}
