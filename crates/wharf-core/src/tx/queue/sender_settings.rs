//! `SenderSettings`: the settings of a queue that its senders put into force themselves.
//!
//! A sender compares one number with each call: that of the last change. So a change costs nothing until there is one, and a sender
//! that is about to send has it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct SenderSettings {
    /// The number of changes. The end of the queue is one, too.
    version: AtomicU32,
    /// The most bytes that one sender may have inside; 0 for no limit.
    small_queue_bytes: AtomicU32,
    is_drop_tail: AtomicBool,
    /// The discipline has bands, or one had: senders classify.
    uses_bands: AtomicBool,
}

impl SenderSettings {
    pub(super) fn new(small_queue_bytes: Option<u32>, uses_bands: bool) -> Self {
        Self {
            version: AtomicU32::new(0),
            small_queue_bytes: AtomicU32::new(small_queue_bytes.unwrap_or(0)),
            is_drop_tail: AtomicBool::new(false),
            uses_bands: AtomicBool::new(uses_bands),
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

    /// True if senders drop packets that do not fit, false if they wait.
    pub(crate) fn is_drop_tail(&self) -> bool {
        self.is_drop_tail.load(Ordering::Relaxed)
    }

    /// True if senders give each frame its band.
    pub(crate) fn uses_bands(&self) -> bool {
        self.uses_bands.load(Ordering::Relaxed)
    }

    /// Has senders classify from now on. There is no way back: lanes would hold frames of both kinds.
    pub(super) fn use_bands(&self) {
        self.uses_bands.store(true, Ordering::Relaxed);
        self.note_change();
    }

    pub(super) fn set_small_queue_bytes(&self, bytes: Option<u32>) {
        self.small_queue_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
        self.note_change();
    }

    pub(super) fn set_drop_tail(&self, is_drop_tail: bool) {
        self.is_drop_tail.store(is_drop_tail, Ordering::Relaxed);
        self.note_change();
    }

    /// Has each sender look at its settings before it sends again.
    pub(super) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}
