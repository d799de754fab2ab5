//! When frames that have left are taken out of the transmit queue, as Linux's driver has done it in turn (`drivers/net/virtio_net.c`):
//! a type each.
//!
//! | | cleans | asks to be told | senders are charged |
//! |---|---|---|---|
//! | [`AtTransmit`], `napi=off` | after the next transmit | while it is stopped, or somebody waits | until the queue has the frame |
//! | [`Ticking`], `napi=timer`, until 2013 | as that, and ten times a second | as that | as that |
//! | [`Napi`], `napi=on`, since 2017 | whoever polls, on the processor that transmits | of three quarters of what is under way | until it has left |
//!
//! *Asking* is delayed: the other side tells once three quarters of what is under way have left (`virtqueue_enable_cb_delayed`),
//! and is asked only before a poller sleeps. What has not left when it sleeps is told of; so nothing rests for ever.

use std::fmt::Debug;
use wharf_core::device::CompletionMode;
use wharf_core::host::Clock;
use wharf_sys::affinity;

/// When to clean. Told of all that happens to the queue, and asked before it is looked into.
pub(super) trait Cleaning: Debug + Send + 'static {
    /// Moment at which frames are given back.
    const COMPLETIONS: CompletionMode;

    /// Frames went in.
    fn transmitted(&mut self);

    /// Somebody waits for what has left.
    fn force_completion(&mut self);

    /// Whether the queue is to be looked into now; `is_full` says that it takes no more.
    fn is_due(&mut self, is_full: bool) -> bool;

    /// It was looked into, to the last frame that had left.
    fn cleaned(&mut self);

    /// A poller is about to sleep: whether it is to be told of what leaves.
    fn asks(&self, is_full: bool) -> bool;

    /// It was told, or need not be any more; or it has left already.
    fn told(&mut self);

    /// When it looks by itself, from now.
    fn next_ns(&self) -> Option<u64> {
        None
    }
}

/// At any time by the processor that transmits; by another one only where it was told to, or somebody waits: the lines
/// of the ring and of the frames are where they were written last.
#[derive(Debug)]
pub(super) struct Napi {
    /// Whether any processor may.
    anywhere: bool,
    /// The one that transmitted last.
    processor: Option<usize>,
    is_called: bool,
}

impl Napi {
    pub(super) fn new(anywhere: bool) -> Self {
        Self { anywhere, processor: None, is_called: false }
    }
}

impl Cleaning for Napi {
    const COMPLETIONS: CompletionMode = CompletionMode::Real;

    #[inline]
    fn transmitted(&mut self) {
        if !self.anywhere {
            self.processor = affinity::current();
        }
    }

    fn force_completion(&mut self) {
        self.is_called = true;
    }

    #[inline]
    fn is_due(&mut self, is_full: bool) -> bool {
        self.anywhere || self.is_called || is_full || self.processor == affinity::current()
    }

    #[inline]
    fn cleaned(&mut self) {
        self.is_called = false;
    }

    fn asks(&self, _is_full: bool) -> bool {
        true
    }

    fn told(&mut self) {
        self.is_called = true;
    }
}

/// Once after each transmit: what left after the last one waits for the next.
#[derive(Debug, Default)]
pub(super) struct AtTransmit {
    has_transmitted: bool,
    is_waited_for: bool,
}

impl Cleaning for AtTransmit {
    const COMPLETIONS: CompletionMode = CompletionMode::Late;

    #[inline]
    fn transmitted(&mut self) {
        self.has_transmitted = true;
    }

    fn force_completion(&mut self) {
        self.is_waited_for = true;
    }

    #[inline]
    fn is_due(&mut self, is_full: bool) -> bool {
        is_full || self.has_transmitted || self.is_waited_for
    }

    #[inline]
    fn cleaned(&mut self) {
        *self = Self::default();
    }

    fn asks(&self, is_full: bool) -> bool {
        is_full || self.is_waited_for
    }

    fn told(&mut self) {}
}

/// As [`AtTransmit`], and by a timer.
#[derive(Debug)]
pub(super) struct Ticking<C> {
    otherwise: AtTransmit,
    clock: C,
    next_ns: u64,
}

/// Ten times a second.
const TICK_NS: u64 = 100_000_000;

impl<C: Clock> Ticking<C> {
    pub(super) fn new(clock: C) -> Self {
        let next_ns = clock.now_ns() + TICK_NS;
        Self { otherwise: AtTransmit::default(), clock, next_ns }
    }
}

impl<C: Clock + 'static> Cleaning for Ticking<C> {
    const COMPLETIONS: CompletionMode = CompletionMode::Late;

    #[inline]
    fn transmitted(&mut self) {
        self.otherwise.transmitted();
    }

    fn force_completion(&mut self) {
        self.otherwise.force_completion();
    }

    #[inline]
    fn is_due(&mut self, is_full: bool) -> bool {
        self.otherwise.is_due(is_full) || self.clock.now_ns() >= self.next_ns
    }

    #[inline]
    fn cleaned(&mut self) {
        self.otherwise.cleaned();
        self.next_ns = self.clock.now_ns() + TICK_NS;
    }

    fn asks(&self, is_full: bool) -> bool {
        self.otherwise.asks(is_full)
    }

    fn told(&mut self) {}

    fn next_ns(&self) -> Option<u64> {
        Some(self.next_ns.saturating_sub(self.clock.now_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn napi_cleans_where_it_transmits_and_elsewhere_when_called() {
        for anywhere in [false, true] {
            let mut napi = Napi { processor: Some(usize::MAX), ..Napi::new(anywhere) };
            assert_eq!(napi.is_due(false), anywhere, "this is no such processor");
            assert!(napi.is_due(true) && napi.asks(false));
            for call in [Napi::told, Napi::force_completion] {
                call(&mut napi);
                assert!(napi.is_due(false));
                napi.cleaned();
                assert_eq!(napi.is_due(false), anywhere);
            }
        }
    }

    #[test]
    fn off_cleans_once_after_each_transmit_and_asks_only_where_somebody_would_be_stuck() {
        let mut off = AtTransmit::default();
        assert!(!off.is_due(false) && !off.asks(false));
        assert!(off.is_due(true) && off.asks(true), "it is stopped");
        off.told();
        assert!(!off.is_due(false));
        off.transmitted();
        assert!(off.is_due(false) && !off.asks(false));
        off.cleaned();
        assert!(!off.is_due(false));
        off.force_completion();
        assert!(off.is_due(false) && off.asks(false));
        off.cleaned();
        assert!(!off.is_due(false) && off.next_ns().is_none());
    }

    #[derive(Debug, Clone, Default)]
    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now_ns(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    #[test]
    fn the_timer_cleans_ten_times_a_second_as_well() {
        let hand = Hand::default();
        let mut timer = Ticking::new(hand.clone());
        assert!(!timer.is_due(false));
        for round in 1..4 {
            hand.0.store(round * TICK_NS - 1, Relaxed);
            assert_eq!((timer.is_due(false), timer.next_ns()), (false, Some(1)));
            hand.0.store(round * TICK_NS, Relaxed);
            assert!(timer.is_due(false));
            timer.cleaned();
        }
        timer.transmitted();
        assert!(timer.is_due(false) && !timer.asks(false) && timer.asks(true));
    }
}
