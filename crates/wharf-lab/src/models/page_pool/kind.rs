//! The policies by name.

use crate::comparators::page_policy::{Allocator, Halves, OnBusy, Origin, Policy, Recycle, SenderCache};
use wharf_core::pool::PagePool;

/// A policy to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// [`Allocator`].
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

/// What is done with a policy, whichever it is.
pub trait UsePolicy {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<P: Policy>(self, policy: &P) -> Self::Output;
}

impl PolicyKind {
    /// All, the one that others are compared with first.
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

    /// What rows call it.
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

    /// Makes it over `pool`, FIFOs holding `fifo_pages`, for `what`.
    pub fn with<U: UsePolicy>(self, pool: &PagePool, fifo_pages: usize, what: U) -> U::Output {
        let recycle = |on_busy| Recycle::new(pool, on_busy, fifo_pages);
        match self {
            Self::Allocator => what.with(&Allocator::new(pool)),
            Self::RecycleHead => what.with(&recycle(OnBusy::Stop)),
            Self::RecycleHeadRelease => what.with(&recycle(OnBusy::Release)),
            Self::RecycleHeadRotate => what.with(&recycle(OnBusy::Rotate)),
            Self::RecycleScan => what.with(&recycle(OnBusy::Scan)),
            Self::Origin => what.with(&Origin::new(pool)),
            Self::Halves => what.with(&Halves::new(pool)),
            Self::SenderCache => what.with(&SenderCache::new(pool)),
        }
    }
}
