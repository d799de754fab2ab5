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

/// An action over any policy.
pub trait UsePolicy {
    /// Its result.
    type Output;

    /// Does it with `policy`.
    fn with<P: Policy>(self, policy: &P) -> Self::Output;
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

    /// Creates the policy over `pool`, with FIFOs of `fifo_pages`, and does `what` with it.
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
