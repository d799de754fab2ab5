//! The policies by name.

use crate::comparators::page_policy::{Allocator, Halves, OnBusy, Origin, Policy, Recycle, SenderCache};
use wharf_core::pool::PagePool;

/// A policy to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyKind {
    /// [`Allocator`].
    #[default]
    Allocator,
    /// [`Recycle`], [`OnBusy::Stop`].
    RecycleHead,
    /// [`Recycle`], [`OnBusy::Release`].
    RecycleHeadRelease,
    /// [`Recycle`], [`OnBusy::Rotate`].
    RecycleHeadRotate,
    /// [`Recycle`], [`OnBusy::Scan`].
    RecycleScan,
    /// [`Origin`].
    Origin,
    /// [`Halves`].
    Halves,
    /// [`SenderCache`].
    SenderCache,
}

impl PolicyKind {
    /// All; the first is the baseline.
    pub const ALL: [Self; 8] = [
        Self::Allocator,
        Self::RecycleHead,
        Self::RecycleHeadRelease,
        Self::RecycleHeadRotate,
        Self::RecycleScan,
        Self::Origin,
        Self::Halves,
        Self::SenderCache,
    ];

    /// Returns its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::RecycleHead => "recycle-head",
            Self::RecycleHeadRelease => "recycle-head/busy=release",
            Self::RecycleHeadRotate => "recycle-head/busy=rotate",
            Self::RecycleScan => "recycle-scan",
            Self::Origin => "origin",
            Self::Halves => "halves",
            Self::SenderCache => "sender-cache",
        }
    }

    /// Creates the policy over `pool`, with FIFOs of `fifo_pages`.
    pub fn over(self, pool: &PagePool, fifo_pages: usize) -> Box<dyn Policy> {
        let recycle = |on_busy| Recycle::new(pool, on_busy, fifo_pages);
        match self {
            Self::Allocator => Box::new(Allocator::new(pool)),
            Self::RecycleHead => Box::new(recycle(OnBusy::Stop)),
            Self::RecycleHeadRelease => Box::new(recycle(OnBusy::Release)),
            Self::RecycleHeadRotate => Box::new(recycle(OnBusy::Rotate)),
            Self::RecycleScan => Box::new(recycle(OnBusy::Scan)),
            Self::Origin => Box::new(Origin::new(pool)),
            Self::Halves => Box::new(Halves::new(pool)),
            Self::SenderCache => Box::new(SenderCache::new(pool)),
        }
    }
}
