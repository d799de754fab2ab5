//! `Inbox`: messages of many threads for the owner of a queue. A thread that is stopped anywhere in a call holds up no
//! other: there is no lock.
//!
//! A stack of boxes: [`Inbox::push`] puts one on top by compare-and-swap, [`Inbox::take`] takes all at once, so that no box is
//! looked at while another thread may free it. The swap that takes (acquire) pairs with the one that pushes (release).

use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// Messages in the order in which they were pushed, taken all at once.
pub struct Inbox<T> {
    top: AtomicPtr<Entry<T>>,
}

struct Entry<T> {
    message: T,
    below: *mut Entry<T>,
}

/// The messages that were taken, first come first.
pub struct Messages<T> {
    first: *mut Entry<T>,
}

// SAFETY: a message moves from the thread that pushes it to the one that takes it; no thread refers to one in the inbox.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Inbox<T> {}
// SAFETY: it owns its messages.
unsafe impl<T: Send> Send for Messages<T> {}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { top: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox(empty: {})", self.is_empty())
    }
}

impl<T> std::fmt::Debug for Messages<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Messages(empty: {})", self.first.is_null())
    }
}

impl<T> Inbox<T> {
    /// Adds a message. Allocates.
    pub fn push(&self, message: T) {
        let mut below = self.top.load(Ordering::Relaxed);
        let entry = Box::into_raw(Box::new(Entry { message, below }));
        while let Err(now) = self.top.compare_exchange_weak(below, entry, Ordering::AcqRel, Ordering::Relaxed)
        {
            below = now;
            // SAFETY: the entry is this thread's until the exchange succeeds.
            unsafe { (*entry).below = below };
        }
    }

    /// True if there is no message at this moment.
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Acquire).is_null()
    }

    /// Takes all messages.
    pub fn take(&self) -> Messages<T> {
        if self.is_empty() {
            return Messages { first: ptr::null_mut() };
        }
        let mut from = self.top.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut first = ptr::null_mut();
        while !from.is_null() {
            // SAFETY: the swap made the chain this thread's; each entry came from a box.
            let below = unsafe { std::mem::replace(&mut (*from).below, first) };
            (first, from) = (from, below);
        }
        Messages { first }
    }
}

impl<T> Iterator for Messages<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the entry came from a box, and is this iterator's alone.
        let Entry { message, below } = *unsafe { Box::from_raw(self.first) };
        self.first = below;
        Some(message)
    }
}

impl<T> Drop for Messages<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
