//! `Faults`: errors that wait to be reported.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wharf_mem::lock;

/// Most of them: a driver that breaks the rules again and again has few.
const FAULTS_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Faults {
    all: Mutex<VecDeque<String>>,
    has_any: AtomicBool,
}

impl Faults {
    /// Adds one, unless there are many, or it is the same as the last.
    pub(super) fn add(&self, what: String) {
        let mut all = lock(&self.all);
        if all.len() < FAULTS_MAX && all.back() != Some(&what) {
            all.push_back(what);
        }
        self.has_any.store(true, Ordering::Release);
    }

    /// Returns true if there are some.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Returns the first one, once.
    pub(super) fn take(&self) -> Option<String> {
        let mut all = lock(&self.all);
        let first = all.pop_front();
        self.has_any.store(!all.is_empty(), Ordering::Release);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_nobody_takes_are_few() {
        let faults = Faults::default();
        (0..100).for_each(|number| faults.add(format!("fault {}", number / 2)));
        let told: Vec<_> = std::iter::from_fn(|| faults.take()).collect();
        assert_eq!((told.len(), told[15].as_str()), (FAULTS_MAX, "fault 15"));
        assert!(!faults.has_any());
    }
}
