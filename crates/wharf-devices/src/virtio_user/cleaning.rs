//! Completion modes of the transmit queue, one type each, after the history of Linux's driver
//! (`drivers/net/virtio_net.c`).
//!
//! | | reaps | asks for notifications | senders are charged |
//! |---|---|---|---|
//! | [`AtTransmit`], `napi=off` | after the next transmit | while the queue is stopped, or a thread waits | until the queue has the frame |
//! | [`AtTransmit`] with [`Ticks`], `napi=timer`, until 2013 | likewise, and ten times a second | likewise | likewise |
//! | [`Napi`], `napi=on`, since 2017 | any poller on the processor that transmits | when three quarters of the frames inside have left | until the frame has left |
//!
//! Asking is delayed: the device notifies once three quarters of the frames inside have left
//! (`virtqueue_enable_cb_delayed`), and is asked only before a poller sleeps. A notification covers frames
//! that have not left by then, so none stays for ever.

use std::fmt::Debug;
use wharf_core::device::CompletionMode;
use wharf_core::host::Clock;
use wharf_sys::affinity;

/// The completion mode: it follows the queue's events, and decides when the queue is reaped.
pub(super) trait Cleaning: Debug + Send + 'static {
    /// Moment at which frames are given back.
    const COMPLETIONS: CompletionMode;

    /// Notes that frames went in.
    fn transmitted(&mut self);

    /// Makes the next look due: a thread waits for frames that have left.
    fn force_completion(&mut self);

    /// Returns true if the queue is to be reaped now; `is_full` says that it takes no more.
    fn is_due(&mut self, is_full: bool) -> bool;

    /// Notes that the queue was reaped, to the last frame that had left.
    fn cleaned(&mut self);

    /// Returns true if the device is to notify a poller that is about to sleep.
    fn asks(&self, is_full: bool) -> bool;

    /// Notes a notification, or that none is needed any more, or that frames have left already.
    fn told(&mut self);

    /// Returns in how many nanoseconds the mode reaps by itself.
    fn next_ns(&self) -> Option<u64> {
        None
    }
}

/// Reaps at any time on the processor that transmits. Another processor reaps only after a notification, or
/// if a thread waits: the cache lines of the ring and the frames are on the processor that wrote them last.
#[derive(Debug)]
pub(super) struct Napi {
    /// True if any processor may.
    anywhere: bool,
    /// The processor that transmitted last.
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

/// Reaps once after each transmit: frames that left later wait for the next, or for the timer `T`, if there is one.
#[derive(Debug, Default)]
pub(super) struct AtTransmit<T = ()> {
    has_transmitted: bool,
    is_waited_for: bool,
    timer: T,
}

/// A timer by which a queue is reaped; `()` is none.
pub(super) trait Timer: Debug + Send + 'static {
    /// Begins a new period.
    fn restart(&mut self) {}

    /// Returns the nanoseconds left of the period.
    fn left_ns(&self) -> Option<u64> {
        None
    }
}

impl Timer for () {}

/// A timer that rings ten times a second.
#[derive(Debug)]
pub(super) struct Ticks<C> {
    clock: C,
    next_ns: u64,
}

const TICK_NS: u64 = 100_000_000;

impl<C: Clock + 'static> Timer for Ticks<C> {
    fn restart(&mut self) {
        self.next_ns = self.clock.now_ns() + TICK_NS;
    }

    fn left_ns(&self) -> Option<u64> {
        Some(self.next_ns.saturating_sub(self.clock.now_ns()))
    }
}

impl<C: Clock + 'static> AtTransmit<Ticks<C>> {
    pub(super) fn ticking(clock: C) -> Self {
        let timer = Ticks { next_ns: clock.now_ns() + TICK_NS, clock };
        Self { has_transmitted: false, is_waited_for: false, timer }
    }
}

impl<T: Timer> Cleaning for AtTransmit<T> {
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
        is_full || self.has_transmitted || self.is_waited_for || self.timer.left_ns() == Some(0)
    }

    #[inline]
    fn cleaned(&mut self) {
        (self.has_transmitted, self.is_waited_for) = (false, false);
        self.timer.restart();
    }

    fn asks(&self, is_full: bool) -> bool {
        is_full || self.is_waited_for
    }

    fn told(&mut self) {}

    fn next_ns(&self) -> Option<u64> {
        self.timer.left_ns()
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
    fn off_cleans_once_after_each_transmit_and_asks_only_if_a_sender_would_be_stuck() {
        let mut off = AtTransmit::<()>::default();
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
        let mut timer = AtTransmit::ticking(hand.clone());
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
