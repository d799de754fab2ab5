//! `PortMonitor`: hears of errors and panics from the threads that meet them, and looks at the device by the poller's thread.
//!
//! Any owner may tell, also a sender: it pushes the news into an inbox and rings the listeners, without a lock. The
//! poller and the readers move the news into the log, under a lock that no sender takes, and under which neither the queue
//! nor a reader's waker runs. News of a state that is known already is not told, so the inbox stays short.

use super::super::recovery::Recovery;
use super::kept::{DOWN, DOWN_LOOK, GONE, Kept, Remedy, UP, event_of, line_of};
use super::log::Listener;
use super::{Event, State};
use crate::open_error::kind_of_device;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wharf_core::device::{DeviceError, DeviceListener};
use wharf_core::host::Wake;
use wharf_core::monitor::{Link, Monitor, Sign, Watched};
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;
use wharf_devices::reopen::{Change, Reopener, is_missing};
use wharf_mem::inbox::Inbox;

/// The monitor of one port.
#[derive(Debug)]
pub(in crate::port) struct PortMonitor {
    news: Inbox<Event>,
    line: AtomicU8,
    listeners: ArcSwap<Vec<Arc<Listener>>>,
    kept: Mutex<Kept>,
    /// The device held frames at the last look, the line is down, or there is news: the poller looks before it sleeps.
    wants_look: AtomicBool,
    /// Calls the poller, to look.
    poller: ArcSwapOption<Arc<dyn Wake>>,
    closed: AtomicBool,
    recovery: Recovery,
    reopened: AtomicU64,
    /// Why the device could not be opened again at the last attempt.
    not_yet: ArcSwapOption<String>,
}

impl PortMonitor {
    pub(in crate::port) fn new(recovery: Recovery) -> Arc<Self> {
        let kept = Kept::new(&recovery);
        let monitor = Arc::new(Self {
            news: Inbox::default(),
            line: AtomicU8::new(UP),
            listeners: ArcSwap::default(),
            kept: Mutex::new(kept),
            wants_look: AtomicBool::new(false),
            poller: ArcSwapOption::empty(),
            closed: AtomicBool::new(false),
            recovery,
            reopened: AtomicU64::new(0),
            not_yet: ArcSwapOption::empty(),
        });
        if let Some(reopener) = &monitor.recovery.reopener {
            let heard = Arc::downgrade(&monitor);
            reopener.observe(move |change| {
                heard.upgrade().iter().for_each(|monitor| monitor.hear(change));
            });
        }
        monitor
    }

    /// Returns the way to open the device again, if there is one.
    pub(in crate::port) fn reopener(&self) -> Option<&Arc<Reopener>> {
        self.recovery.reopener.as_ref()
    }

    /// Returns the number of times that the device was opened again.
    pub(in crate::port) fn reopened(&self) -> u64 {
        self.reopened.load(SeqCst)
    }

    /// Hears of a device that is opened anew, in any thread.
    fn hear(&self, change: &Change<'_>) {
        match change {
            Change::Gone(error) => self.error(error),
            Change::Reset => {
                self.line.fetch_max(DOWN, SeqCst);
                self.tell(Event::Reset);
            }
            Change::NotYet(error) => {
                let why = (!is_missing(error)).then(|| Arc::new(error.to_string()));
                let before = self.not_yet.swap(why.clone());
                if let Some(why) = why.filter(|why| before.as_ref() != Some(why)) {
                    self.tell(Event::NotYet { why: why.to_string(), kind: kind_of_device(error) });
                }
            }
            &Change::Reopened { after } => {
                self.not_yet.store(None);
                self.reopened.fetch_add(1, SeqCst);
                self.line.store(UP, SeqCst);
                self.tell(Event::Reopened { after });
            }
        }
    }

    /// Watches `queue`.
    pub(in crate::port) fn watch(self: &Arc<Self>, queue: &TxQueue) {
        self.poller.store(Some(Arc::new(queue.call_poller())));
        self.reopener().inspect(|reopener| reopener.add_poller(queue.call_poller()));
        queue.set_monitor(self.clone());
    }

    /// Watches `queue`, the port's receive queue until there is another one.
    pub(in crate::port) fn watch_receiver(self: &Arc<Self>, queue: &RxQueue, is_alone: bool) {
        if is_alone {
            self.poller.store(Some(Arc::new(queue.call_poller())));
        }
        self.reopener().inspect(|reopener| reopener.add_poller(queue.call_poller()));
        queue.set_monitor(self.clone());
    }

    /// Ends all waits for events.
    pub(in crate::port) fn close(&self) {
        self.closed.store(true, SeqCst);
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Returns the state; `at` is looked at, unless another thread has it.
    pub(in crate::port) fn state(&self, at: Option<&dyn Watched>) -> State {
        let link = at.map(|at| self.ask(at, true));
        let mut kept = self.settled();
        let has_news = link.is_some_and(|link| kept.line_is(link));
        let mut state = if kept.line == State::Up { kept.stall.clone() } else { kept.line.clone() };
        if let (State::Down { why, .. } | State::Gone { why, .. }, Some(not_yet)) =
            (&mut state, &*self.not_yet.load())
        {
            *why += &format!("; it cannot be opened yet: {not_yet}");
        }
        drop(kept);
        self.ring_if(has_news);
        state
    }

    /// Adds a reader. Returns the number of its first event.
    pub(super) fn listen(&self, listener: &Arc<Listener>) -> u64 {
        let mut kept = self.settled();
        self.listeners.rcu(|all| all.iter().chain([listener]).cloned().collect::<Vec<_>>());
        kept.looks_ns = 0;
        let first = kept.log.end();
        drop(kept);
        // A sleeping poller begins to look at the line.
        self.call_poller();
        first
    }

    pub(super) fn ignore(&self, listener: &Arc<Listener>) {
        let is_other = |other: &&Arc<Listener>| !Arc::ptr_eq(other, listener);
        self.listeners.rcu(|all| all.iter().filter(is_other).cloned().collect::<Vec<_>>());
    }

    /// Takes event `next`, and the number of events missed before it.
    pub(super) fn take(&self, next: &mut u64, listener: &Listener) -> (Option<Event>, u64) {
        let kept = self.settled();
        let (event, missed) = kept.log.read(next);
        if *next == kept.log.end() {
            listener.clear();
            if !self.news.is_empty() || self.is_closed() {
                listener.ring();
            }
        }
        (event, missed)
    }

    fn ring(&self) {
        self.listeners.load().iter().for_each(|listener| listener.ring());
    }

    fn call_poller(&self) {
        self.wants_look.store(true, SeqCst);
        if let Some(poller) = &*self.poller.load() {
            poller.wake();
        }
    }

    /// Tells news of a thread that may be a sender: no lock.
    fn tell(&self, event: Event) {
        self.news.push(event);
        self.ring();
        self.call_poller();
    }

    fn ring_if(&self, has_news: bool) {
        if has_news {
            self.ring();
        }
    }

    /// Returns what is known, with all news in it.
    fn settled(&self) -> MutexGuard<'_, Kept> {
        let mut kept = wharf_mem::lock(&self.kept);
        self.settle(&mut kept);
        kept
    }

    /// Works like [`PortMonitor::settled`], for the poller: `None` while a reader looks.
    fn try_settled(&self) -> Option<MutexGuard<'_, Kept>> {
        let mut kept = self.kept.try_lock().ok()?;
        self.settle(&mut kept);
        Some(kept)
    }

    fn settle(&self, kept: &mut Kept) {
        self.news.take().for_each(|event| kept.hear(event));
    }

    /// Asks the device for its line. No lock is held: this runs the queue.
    fn ask(&self, at: &dyn Watched, is_down: bool) -> Link {
        if is_down {
            // From here on a thread that finds the line down says so again.
            _ = self.line.compare_exchange(DOWN, UP, SeqCst, SeqCst);
        }
        let link = at.link();
        if let Some(Err(error)) = &link {
            self.line.fetch_max(line_of(error), SeqCst);
        }
        link
    }

    fn apply(&self, remedy: Remedy, at: &dyn Watched) {
        match remedy {
            Remedy::Reset => _ = self.reopener().inspect(|reopener| reopener.reset()),
            Remedy::Fail(why) => at.fail(&why),
        }
    }

    /// Compares the device's counters with those of the last look. Makes sure that completions are overdue: some may be
    /// there to be taken, or due by the device's clock, or frames wait for a peer. Returns true if there is news.
    fn look_at_completions(&self, at: &dyn Watched, now_ns: u64) -> Option<bool> {
        let counters = at.counters()?;
        let mut kept = self.try_settled()?;
        let (held, completed) = counters.device_frames();
        let (sign, is_over) = kept.compare(now_ns, held, completed);
        match sign {
            Some(Sign::Resumed { after_ns }) => {
                counters.note_stall(after_ns);
                return Some(kept.sees(Sign::Resumed { after_ns }, 0, now_ns));
            }
            None if !is_over => return None,
            _ => {}
        }
        drop(kept);
        let has_due = at.has_completions_due()?;
        let link = self.ask(at, false);
        let mut kept = self.try_settled()?;
        let has_news = kept.line_is(link);
        if has_due || kept.line != State::Up {
            kept.excuse(now_ns);
            return Some(has_news);
        }
        if is_over {
            kept.lose_patience();
        }
        let (held, completed) = counters.device_frames();
        let (sign, _) = kept.compare(now_ns, held, completed);
        Some(sign.is_some_and(|sign| kept.sees(sign, held, now_ns)) || has_news)
    }
}

impl DeviceListener for PortMonitor {
    fn error(&self, error: &DeviceError) {
        let to = line_of(error);
        if self.line.fetch_max(to, SeqCst) < to {
            event_of(error).into_iter().for_each(|event| self.tell(event));
        }
    }

    fn panicked(&self, what: &'static str, is_dead: bool) {
        let why: String = what.into();
        self.tell(Event::Panicked { why: why.clone() });
        if is_dead && self.line.swap(GONE, SeqCst) != GONE {
            self.tell(Event::Gone { since: Instant::now(), why });
        }
    }
}

impl Monitor for PortMonitor {
    fn wants_look(&self) -> bool {
        self.wants_look.load(SeqCst)
    }

    fn look(&self, now_ns: u64, at: &dyn Watched) -> u64 {
        self.wants_look.store(false, SeqCst);
        let news = self.look_at_completions(at, now_ns);
        self.ring_if(news == Some(true));
        let later_ns = |time: Duration| now_ns.saturating_add(time.as_nanos() as u64);
        let Some(mut kept) = self.try_settled() else {
            self.wants_look.store(true, SeqCst);
            return later_ns(DOWN_LOOK);
        };
        if let Some(remedy) = kept.remedy.take() {
            drop(kept);
            self.apply(remedy, at);
            self.wants_look.store(true, SeqCst);
            return later_ns(DOWN_LOOK);
        }
        let is_up = kept.line == State::Up;
        if kept.watchdog.is_waiting() || matches!(kept.line, State::Down { .. }) {
            self.wants_look.store(true, SeqCst);
        }
        // Nothing else wakes the poller while its device completes nothing.
        let stall_ns = kept.compares_at_ns(now_ns).unwrap_or(u64::MAX);
        if matches!(kept.line, State::Gone { .. }) || is_up && self.listeners.load().is_empty() {
            return stall_ns;
        }
        if now_ns < kept.looks_ns {
            return kept.looks_ns.min(stall_ns);
        }
        let mut due_ns = later_ns(kept.pause());
        kept.looks_ns = due_ns;
        drop(kept);
        let link = self.ask(at, !is_up);
        if let Some(mut kept) = self.try_settled() {
            let has_news = kept.line_is(link);
            // A line that is down since now is checked sooner.
            due_ns = later_ns(kept.pause());
            kept.looks_ns = due_ns;
            drop(kept);
            self.ring_if(has_news);
        }
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind::NetworkDown;

    /// A line that is up, or down.
    struct Line(bool);

    impl Watched for Line {
        fn link(&self) -> Link {
            let down = |source| DeviceError::Down { device: "test".into(), what: "line".into(), source };
            Some(if self.0 { Ok(()) } else { Err(down(std::io::Error::from(NetworkDown))) })
        }
    }

    #[test]
    fn a_line_that_is_found_down_is_checked_again_when_that_is_to_be_reported() {
        let down_after = Duration::from_millis(20);
        let monitor = PortMonitor::new(Recovery { down_after, ..Recovery::default() });
        monitor.listeners.store(Arc::new(vec![Arc::new(Listener::new().unwrap())]));
        let due_ns = monitor.look(0, &Line(true));
        let soon_ns = monitor.look(due_ns, &Line(false));
        assert!(soon_ns - due_ns <= down_after.as_nanos() as u64, "{} ns", soon_ns - due_ns);
    }
}
