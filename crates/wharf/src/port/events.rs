//! `Events` and `State` of a port: what happens to its device, told while it lasts.
//!
//! Reading order: `monitor.rs` (what is heard and seen, and by which threads), `kept.rs` (what is known), `log.rs` (the events kept for readers),
//! this file (what a program reads).

mod kept;
mod log;
mod monitor;

pub(super) use monitor::PortMonitor;

use super::Host;
use crate::OpenErrorKind;
use log::Listener;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use wharf_core::wait::{Deadline, Wait};

/// The state of a port's device. See [`Port::state`](super::Port::state).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing is known to be wrong.
    Up,
    /// The link is down: frames fail, or wait, until it is up again.
    Down {
        /// Since when.
        since: Instant,
        /// The device's words.
        why: String,
    },
    /// The interface, the peer or the queue has gone: see [`OnGone`](super::OnGone).
    Gone {
        /// Since when.
        since: Instant,
        /// The device's words.
        why: String,
    },
    /// The device holds frames, and completes none of them for longer than it ever takes.
    Stalled {
        /// When it completed a frame last, or was given its first.
        since: Instant,
        /// The frames, and the time.
        why: String,
    },
}

/// Something that happened to a port.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The link is down: see [`State::Down`].
    Down {
        /// Since when.
        since: Instant,
        /// The device's words.
        why: String,
    },
    /// The link is up again.
    Up,
    /// The interface, the peer or the queue has gone: see [`State::Gone`].
    Gone {
        /// Since when.
        since: Instant,
        /// The device's words.
        why: String,
    },
    /// The device is closed, to be opened again: a program, or [`OnStall::Reset`](super::OnStall::Reset), has
    /// asked for it.
    Reset,
    /// An attempt to open the device again has failed, and will be repeated. Reported once in a row for each
    /// reason, and not while its interface or peer is merely away.
    NotYet {
        /// The device's words.
        why: String,
        /// What hinders: of [`OpenErrorKind::NotPermitted`](crate::OpenErrorKind::NotPermitted) no wait helps.
        kind: OpenErrorKind,
    },
    /// The device was opened again, after it had gone or was reset: see [`OnGone`](super::OnGone), [`OnStall`](super::OnStall).
    Reopened {
        /// Time since it had gone, or was reset.
        after: Duration,
    },
    /// The device has begun to stall: see [`State::Stalled`].
    Stalled {
        /// When it completed a frame last, or was given its first.
        since: Instant,
        /// The frames, and the time.
        why: String,
    },
    /// The device completes frames again, or has given them all back.
    Resumed {
        /// Length of the stall.
        after: Duration,
    },
    /// A handler, a discipline or the device has panicked, and has ended.
    Panicked {
        /// The part that has ended.
        why: String,
    },
}

/// The events of a port, from the making of this value on. See [`Port::events`](super::Port::events).
///
/// A program reads them by a blocking iterator, which ends when the port is closed; by [`Events::try_next`] or
/// [`Events::wait`]; as a task; or it waits for the descriptor in poll(2), which is readable while there are
/// events, and now and then once too often. Up to 256 unread events are kept: [`Events::missed`] counts older ones.
///
/// ```
/// use std::time::Duration;
/// use wharf::{Direction, Event, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = Port::open("wire", Direction::Send)?;
/// let events = port.events()?;
/// let watcher = std::thread::spawn(move || {
///     for event in events {
///         match event {
///             Event::Down { why, .. } | Event::Gone { why, .. } => eprintln!("{why}"),
///             Event::Reopened { after } => eprintln!("back after {after:?}: its MAC may be another"),
///             other => eprintln!("{other:?}"),
///         }
///     }
/// });
/// port.close(Duration::from_secs(1)); // ends the events
/// watcher.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Events {
    monitor: Arc<PortMonitor>,
    listener: Arc<Listener>,
    host: Host,
    /// Number of the next event.
    next: u64,
    missed: u64,
}

/// Wakes a thread that waits for an event.
struct Unpark(Arc<dyn wharf_core::host::Wake>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Events {
    pub(super) fn new(monitor: &Arc<PortMonitor>, host: &Host) -> std::io::Result<Self> {
        let listener = Arc::new(Listener::new()?);
        let next = monitor.listen(&listener);
        Ok(Self { monitor: monitor.clone(), listener, host: host.clone(), next, missed: 0 })
    }

    /// Returns the next event, if there is one.
    pub fn try_next(&mut self) -> Option<Event> {
        let (event, missed) = self.monitor.take(&mut self.next, &self.listener);
        self.missed += missed;
        event
    }

    /// Waits for the next event, by the port's clock: in virtual time, that passes. Returns `None` if there
    /// was none in that time, or the port is closed.
    pub fn wait(&mut self, wait: impl Into<Wait>) -> Option<Event> {
        let (clock, park) = (self.host.clock(), self.host.park());
        let waker = Waker::from(Arc::new(Unpark(park.waker())));
        let deadline = Deadline::Of(wait.into()).started(&*clock);
        loop {
            if let Poll::Ready(event) = self.poll_next(&mut Context::from_waker(&waker)) {
                return event;
            }
            match deadline.left_ns(&*clock) {
                0 => return None,
                left_ns => park.park(left_ns),
            }
        }
    }

    /// Returns the next event as a task; `None` once the port is closed.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: the event stays for the next call.
    pub async fn next_async(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next event, or has the task woken by it; `None` once the port is closed: the method of a
    /// stream.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: the event stays for the next call.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.listener.set_task(cx.waker());
        match self.try_next() {
            None if !self.monitor.is_closed() => Poll::Pending,
            // An event may have come just before the end.
            None => Poll::Ready(self.try_next()),
            event => Poll::Ready(event),
        }
    }

    /// Returns the number of events that were dropped, since the program did not read them in time.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl Iterator for Events {
    type Item = Event;

    /// Waits for the next event; `None` once the port is closed.
    fn next(&mut self) -> Option<Event> {
        self.wait(Wait::Forever)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.monitor.ignore(&self.listener);
    }
}
