//! `SenderSettings`: the settings of a queue that its senders put into force themselves.
//!
//! A sender compares one number with each call: that of the last change. So a change costs nothing until there is one, and a sender
//! that is about to send has it.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The policy of a sender for packets that do not fit.
const WAITS: u8 = 1;
const DROPS: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct SenderSettings {
    /// The number of changes. The end of the queue is one, too.
    version: AtomicU32,
    /// The most bytes that one sender may have inside; 0 for no limit.
    small_queue_bytes: AtomicU32,
    /// 0 leaves each sender its own policy.
    policy: AtomicU8,
}

impl SenderSettings {
    pub(super) fn new(small_queue_bytes: Option<u32>) -> Self {
        Self {
            version: AtomicU32::new(0),
            small_queue_bytes: AtomicU32::new(small_queue_bytes.unwrap_or(0)),
            policy: AtomicU8::new(0),
        }
    }

    /// The number of the last change. The settings read afterwards are those of this change, or later ones.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// True if there was no change after `version`, as far as is known.
    #[inline(always)]
    pub(crate) fn is_at(&self, version: u32) -> bool {
        self.version.load(Ordering::Relaxed) == version
    }

    /// The most bytes that one sender may have inside; `None` for no limit.
    pub(crate) fn small_queue_bytes(&self) -> Option<u32> {
        Some(self.small_queue_bytes.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// True if senders drop packets that do not fit, false if they wait; `None` leaves each its own policy.
    pub(crate) fn is_drop_tail(&self) -> Option<bool> {
        Some(self.policy.load(Ordering::Relaxed)).filter(|&policy| policy != 0).map(|policy| policy == DROPS)
    }

    pub(super) fn set_small_queue_bytes(&self, bytes: Option<u32>) {
        self.small_queue_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
        self.note_change();
    }

    pub(super) fn set_drop_tail(&self, is_drop_tail: bool) {
        self.policy.store(if is_drop_tail { DROPS } else { WAITS }, Ordering::Relaxed);
        self.note_change();
    }

    /// Has each sender look at its settings before it sends again.
    pub(super) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}
