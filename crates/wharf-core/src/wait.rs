//! `Wait`: how long a call may wait.

use crate::host::Clock;
use std::time::{Duration, Instant};

/// How long a call may wait. A [`Duration`] and an [`Instant`] convert into it.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use wharf_core::{sender::{SendError, Sender}, wait::Wait};
/// # fn send(sender: &mut Sender) -> Result<(), SendError> {
/// let mut burst = sender.burst(32);
/// sender.fill(&mut burst, 32, 64, Wait::Forever)?;
/// let sent = sender.send(&mut burst, Duration::from_millis(5))?;
/// assert_eq!(sent.left, burst.len()); // what found no room in that time is still there
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait.
    Never,
    /// For this time in all, from the call on.
    For(Duration),
    /// Until then: several calls of a loop have one end.
    Until(Instant),
    /// As long as it takes.
    Forever,
}

impl From<Duration> for Wait {
    fn from(time: Duration) -> Self {
        Self::For(time)
    }
}

impl From<Instant> for Wait {
    fn from(end: Instant) -> Self {
        Self::Until(end)
    }
}

impl Wait {
    /// Returns the end of a wait that begins now; `None` without one.
    pub fn end(self) -> Option<Instant> {
        match self {
            Self::Never => Some(Instant::now()),
            Self::For(time) => Instant::now().checked_add(time),
            Self::Until(end) => Some(end),
            Self::Forever => None,
        }
    }

    /// Returns the time left from now on, ns; `u64::MAX` without an end.
    pub(crate) fn left_ns(self) -> u64 {
        let time = match self {
            Self::Never => Duration::ZERO,
            Self::For(time) => time,
            Self::Until(end) => end.saturating_duration_since(Instant::now()),
            Self::Forever => Duration::MAX,
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The end of a wait.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Deadline {
    /// That of a wait that has not begun.
    Of(Wait),
    /// At a time of the queue's clock, ns; `u64::MAX` for none.
    At(u64),
}

impl Deadline {
    /// True if the call does not wait.
    pub(crate) fn is_never(self) -> bool {
        matches!(self, Self::Of(Wait::Never))
    }

    /// Starts the time of a wait that may take place: the only call that reads the clock before it does.
    pub fn started(self, clock: &dyn Clock) -> Self {
        match self {
            Self::Of(Wait::Never) | Self::At(_) => self,
            Self::Of(wait) => match wait.left_ns() {
                u64::MAX => Self::At(u64::MAX),
                left_ns => Self::At(clock.exact_ns().saturating_add(left_ns)),
            },
        }
    }

    /// Returns the time left, ns; `u64::MAX` without an end.
    pub fn left_ns(self, clock: &dyn Clock) -> u64 {
        match self {
            Self::At(u64::MAX) => u64::MAX,
            Self::At(at_ns) => at_ns.saturating_sub(clock.exact_ns()),
            Self::Of(wait) => wait.left_ns(),
        }
    }
}
