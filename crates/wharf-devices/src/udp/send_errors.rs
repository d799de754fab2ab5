//! `SendErrors`: meaning of a send error for the frame at hand, and its report.
//!
//! An error may be about an earlier datagram: ICMP reported it, and the datagram at hand was not looked at
//! (udp(7)). The socket's error queue then has a report of each such datagram: they count as undelivered, by
//! reason, and the send is repeated. Without a report everything is tried twice: only an error that repeats is
//! about the datagram at hand.

use crate::iface::{StuckTimer, io_fault, take_error};
use std::time::{Duration, Instant};
use std::{io, iter, thread};
use wharf_core::counters;
use wharf_core::device::DeviceError;
pub(super) use wharf_sys::errno::{EACCES, EADDRNOTAVAIL, EHOSTUNREACH};
use wharf_sys::errno::{
    EAGAIN, ECONNREFUSED, EHOSTDOWN, EINTR, EINVAL, EIO, EMSGSIZE, ENETDOWN, ENETUNREACH, ENOBUFS, ENOMEM,
    EOPNOTSUPP, EPERM,
};
use wharf_sys::udp::{ErrorReport, UdpSocket};

/// Time that the kernel may be out of memory for a frame. The socket's buffer is not full then, so no
/// notification follows.
const STUCK_NS: u64 = 1_000_000_000;
/// Consecutive errors before a frame fails: each but two stands for an earlier datagram.
const IN_A_ROW_MAX: u32 = 64;
/// Longest wait for datagrams that have not left this host as the device is closed, and time between two looks. The
/// kernel asks for a neighbour three times, a second each (`mcast_solicit`, `retrans_time_ms`). Those whose
/// neighbour has answered wait in a queueing discipline or an adapter: no report will follow.
const UNSENT_MAX: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(2);
/// Wait for the answers to the last datagrams: a round trip to a host nearby, or a turn of the kernel's thread for
/// received packets on a busy processor.
const ANSWERS_MAX: Duration = Duration::from_millis(20);

/// Text of errors of the network layer.
const NO_WAY: &str = "no neighbour answers (`ip neigh`), or no route leads to the destination";

/// Action for the first message, which the kernel rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait: there is no room now.
    Wait,
    /// Send it again.
    Again,
    /// Send its datagrams one by one.
    Apart,
    /// Fail its first frame.
    Fail(&'static str),
}

#[derive(Debug)]
pub(super) struct SendErrors {
    device: String,
    /// The last error since something was sent.
    last: Option<i32>,
    in_a_row: u32,
    has_sent: bool,
    /// It waits for no report as the device is closed.
    pub(super) is_hasty: bool,
    stuck: StuckTimer,
    told: Vec<i32>,
    /// Error for the next reap.
    error: Option<DeviceError>,
    undelivered: Undelivered,
}

/// Datagrams that the kernel had taken and that did not arrive, as ICMP reported.
#[derive(Debug, Default)]
struct Undelivered {
    /// Counts by reason, as far as no error has handed them over.
    counts: Vec<(&'static str, u64)>,
    total: u64,
    /// Error number of the last one.
    errno: i32,
    /// True if the next reap hands them over.
    is_due: bool,
}

impl Undelivered {
    /// Counts a datagram. The first is handed over at once, and then all as often as their number has doubled.
    fn note(&mut self, errno: i32) {
        counters::add(&mut self.counts, reason_of(errno).0, 1);
        (self.total, self.errno) = (self.total + 1, errno);
        self.is_due |= self.total.is_power_of_two();
    }

    /// Returns the error that hands the counts over, if there are any.
    fn hand_over(&mut self, device: &str) -> Option<DeviceError> {
        self.is_due = false;
        let counts = std::mem::take(&mut self.counts);
        let datagrams = match self.total {
            1 => "1 datagram".into(),
            many => format!("{many} datagrams"),
        };
        // Hosts limit the rate of reports, and the kernel drops in silence what it has no room for.
        let what = format!("{} (at least {datagrams} did not arrive)", reason_of(self.errno).1);
        let source = io::Error::from_raw_os_error(self.errno);
        (!counts.is_empty()).then(|| DeviceError::Undelivered { device: device.into(), what, counts, source })
    }
}

impl SendErrors {
    pub(super) fn new(device: &str) -> Self {
        let (device, last, stuck, told, error) =
            (device.into(), None, StuckTimer::default(), Vec::new(), None);
        Self {
            device,
            last,
            in_a_row: 0,
            has_sent: false,
            is_hasty: false,
            stuck,
            told,
            error,
            undelivered: Undelivered::default(),
        }
    }

    /// Notes that something was sent.
    #[inline]
    pub(super) fn over(&mut self) {
        self.has_sent = true;
        if self.in_a_row > 0 || self.last.is_some() {
            (self.last, self.in_a_row) = (None, 0);
            self.stuck.clear();
        }
    }

    /// Returns the action for the first message, which the kernel rejected; `is_joined` if it is several
    /// datagrams.
    #[cold]
    pub(super) fn action(&mut self, error: io::Error, is_joined: bool) -> Action {
        let errno = error.raw_os_error().unwrap_or(EINVAL);
        self.in_a_row += 1;
        let is_first = self.last.replace(errno) != Some(errno) && self.in_a_row < IN_A_ROW_MAX;
        match errno {
            EAGAIN | EINTR => {
                self.in_a_row = 0;
                Action::Wait
            }
            ENOBUFS | ENOMEM if !self.stuck.is_stuck(0, STUCK_NS) => Action::Wait,
            ECONNREFUSED => self.refused(error),
            EIO | EINVAL | EMSGSIZE | EOPNOTSUPP if is_joined => Action::Apart,
            _ if is_first => Action::Again,
            _ if is_joined => Action::Apart,
            _ => self.fail(errno, error),
        }
    }

    /// Counts a closed port at an earlier datagram's destination; this datagram is sent all the same.
    fn refused(&mut self, error: io::Error) -> Action {
        self.note_earlier(error);
        if self.in_a_row <= IN_A_ROW_MAX { Action::Again } else { Action::Fail("connection-refused") }
    }

    /// Counts the datagrams of `reports`. Returns the number of those that the kernel had taken.
    #[cold]
    pub(super) fn note_reports(&mut self, reports: impl Iterator<Item = ErrorReport>) -> u64 {
        let before = self.undelivered.total;
        reports.filter(|report| report.is_late).for_each(|report| self.undelivered.note(report.errno));
        self.undelivered.total - before
    }

    /// Returns the action after `error` that came with reports of earlier datagrams: the first message was not looked
    /// at.
    #[cold]
    pub(super) fn after_reports(&mut self, error: io::Error) -> Action {
        self.in_a_row += 1;
        let reason = reason_of(error.raw_os_error().unwrap_or(EINVAL)).0;
        if self.in_a_row <= IN_A_ROW_MAX { Action::Again } else { Action::Fail(reason) }
    }

    /// Notes an ICMP report of an earlier datagram that is not in the error queue.
    pub(super) fn note_earlier(&mut self, source: io::Error) {
        self.undelivered.note(source.raw_os_error().unwrap_or(EINVAL));
    }

    /// Notes `error`, with which a call to receive reported earlier datagrams.
    pub(super) fn note_error(&mut self, socket: &UdpSocket, error: io::Error) {
        if self.note_reports(iter::from_fn(|| socket.next_report())) == 0 {
            self.note_earlier(error);
        }
    }

    /// Reads the last reports. Unless a datagram has been reported before, it waits for answers to the last ones, and for
    /// those that have not left this host yet: the kernel drops them when no neighbour has answered for 3 s.
    pub(super) fn wait_for_reports(&mut self, socket: &UdpSocket) {
        let since = Instant::now();
        let mut waited = false;
        loop {
            // An error of the last call: no call follows that would report it.
            match socket.take_error() {
                Ok(Some(error)) => self.note_error(socket, error),
                _ => drop(self.note_reports(iter::from_fn(|| socket.next_report()))),
            }
            let is_unsent = socket.unsent_bytes().is_ok_and(|bytes| bytes > 0);
            let time = wait_max(is_unsent, || socket.lacks_neighbour());
            if self.is_hasty || !self.has_sent || self.undelivered.total > 0 || since.elapsed() > time {
                break;
            }
            waited |= is_unsent;
            thread::sleep(LOOK);
        }
        // ICMP reports nothing while loopback is down.
        if waited && self.undelivered.total == 0 && socket.lacks_neighbour() == Some(true) {
            self.tell(EHOSTUNREACH, NO_WAY, io::Error::from_raw_os_error(EHOSTUNREACH));
        }
    }

    fn fail(&mut self, errno: i32, source: io::Error) -> Action {
        let (reason, what) = reason_of(errno);
        self.tell(errno, what, source);
        Action::Fail(reason)
    }

    /// Reports each kind once.
    fn tell(&mut self, errno: i32, what: &str, source: io::Error) {
        if !self.told.contains(&errno) {
            self.told.push(errno);
            self.error = Some(io_fault(&self.device, what)(source));
        }
    }

    /// Returns the error to be reported, once.
    #[inline]
    pub(super) fn take_error(&mut self) -> Result<(), DeviceError> {
        if self.undelivered.is_due && self.error.is_none() {
            self.error = self.undelivered.hand_over(&self.device);
        }
        take_error(&mut self.error)
    }

    /// Returns the last error: with it all counts are handed over.
    pub(super) fn take_last_error(&mut self) -> Result<(), DeviceError> {
        self.error = self.undelivered.hand_over(&self.device).or(self.error.take());
        self.take_error()
    }
}

/// Returns how long to wait for reports at the end: of datagrams that have not left, until the kernel gives
/// up a neighbour that has not answered; `lacks_neighbour` says whether it has not, as far as that is known.
fn wait_max(is_unsent: bool, lacks_neighbour: impl FnOnce() -> Option<bool>) -> Duration {
    if is_unsent && lacks_neighbour() != Some(false) { UNSENT_MAX } else { ANSWERS_MAX }
}

/// Returns the reason of a datagram that fails with `errno`, and the error's text.
fn reason_of(errno: i32) -> (&'static str, &'static str) {
    match errno {
        ECONNREFUSED => ("connection-refused", "no program listens there"),
        EMSGSIZE => ("too-long", "a datagram is longer than can be sent there"),
        ENETUNREACH | EHOSTUNREACH | EHOSTDOWN => ("unreachable", NO_WAY),
        EPERM | EACCES => ("not-permitted", "a firewall, or the lack of a right, forbids a datagram"),
        ENETDOWN => ("link-down", "the interface is down"),
        EADDRNOTAVAIL => ("bad-source", "the source address is not this machine's any more"),
        _ => ("refused", "the kernel refuses a datagram"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    #[test]
    fn an_answer_counts_when_it_comes_again() {
        let mut errors = SendErrors::new("udp:x:1");
        for (errno, reason) in
            [(EPERM, "not-permitted"), (EMSGSIZE, "too-long"), (ENETUNREACH, "unreachable")]
        {
            assert_eq!(errors.action(error(errno), false), Action::Again);
            errors.over();
            assert_eq!(errors.action(error(errno), false), Action::Again, "it was about another one");
            for _ in 0..2 {
                assert_eq!(errors.action(error(errno), false), Action::Fail(reason));
            }
            let told = errors.take_error().unwrap_err().to_string();
            assert!(told.starts_with("udp:x:1: ") && !told.contains('\n'), "{told}");
            assert!(errors.take_error().is_ok());
        }
    }

    #[test]
    fn datagrams_behind_a_slow_discipline_are_not_waited_for_as_those_of_a_silent_neighbour_are() {
        let of = |is_unsent, lacks| wait_max(is_unsent, || lacks);
        assert_eq!([of(true, Some(true)), of(true, None)], [UNSENT_MAX; 2]);
        assert_eq!([of(true, Some(false)), of(false, None), of(false, Some(true))], [ANSWERS_MAX; 3]);
    }

    #[test]
    fn joined_send_is_split_before_it_fails() {
        let mut errors = SendErrors::new("udp:x:1");
        for errno in [EIO, EINVAL, EMSGSIZE, EOPNOTSUPP] {
            assert_eq!(errors.action(error(errno), true), Action::Apart);
            errors.over();
        }
        let actions = [true, true, false].map(|is_joined| errors.action(error(EPERM), is_joined));
        assert_eq!(actions, [Action::Again, Action::Apart, Action::Fail("not-permitted")]);
    }

    #[test]
    fn closed_port_is_counted_and_does_not_end_the_device() {
        let mut errors = SendErrors::new("udp:x:1");
        for _ in 0..1000 {
            assert_eq!(errors.action(error(ECONNREFUSED), false), Action::Again);
            errors.over();
        }
        let counts_of = |error| match error {
            Err(DeviceError::Undelivered { what, counts, .. }) => (what, counts),
            other => panic!("{other:?}"),
        };
        let (what, counts) = counts_of(errors.take_error());
        assert!(what.contains("no program listens there (at least 1000 datagrams did not arrive)"), "{what}");
        assert_eq!(counts, [("connection-refused", 1000)]);
        assert!(errors.take_error().is_ok());
        errors.note_earlier(error(ECONNREFUSED));
        assert!(errors.take_error().is_ok(), "told again when there are twice as many");
        assert_eq!(counts_of(errors.take_last_error()).1, [("connection-refused", 1)]);
        assert!(errors.take_last_error().is_ok());
        let last = (0..65).map(|_| errors.action(error(ECONNREFUSED), true)).last();
        assert_eq!(last, Some(Action::Fail("connection-refused")));
    }

    #[test]
    fn reports_count_by_reason_and_the_datagram_at_hand_is_sent_again() {
        let mut errors = SendErrors::new("udp:x:1");
        let report = |errno| ErrorReport { errno, is_late: true };
        let own = ErrorReport { errno: EMSGSIZE, is_late: false };
        for _ in 0..100 {
            let reports = [report(EHOSTUNREACH), report(ENETUNREACH), report(EACCES), own];
            assert_eq!(errors.note_reports(reports.into_iter()), 3);
            assert_eq!(errors.after_reports(error(EHOSTUNREACH)), Action::Again);
            errors.over();
        }
        let told = errors.take_last_error().unwrap_err();
        let DeviceError::Undelivered { counts, .. } = &told else { panic!("{told}") };
        assert_eq!(counts[..], [("unreachable", 200), ("not-permitted", 100)]);
        assert!(!told.to_string().contains('\n') && told.to_string().contains("300 datagrams"), "{told}");
        let last = (0..65).map(|_| errors.after_reports(error(EHOSTUNREACH))).last();
        assert_eq!(last, Some(Action::Fail("unreachable")), "there is an end to retries");
    }

    #[test]
    fn any_mixture_of_errors_ends_the_retries() {
        let mut errors = SendErrors::new("udp:x:1");
        let mut actions =
            (0..70).map(|at| errors.action(error(if at % 2 == 0 { EPERM } else { ENETUNREACH }), false));
        assert!(actions.any(|action| matches!(action, Action::Fail(_))));
    }

    #[test]
    fn a_full_buffer_is_waited_for_and_no_memory_for_a_while() {
        let mut errors = SendErrors::new("udp:x:1");
        for errno in [EAGAIN, ENOBUFS, ENOMEM, EAGAIN] {
            assert_eq!(errors.action(error(errno), true), Action::Wait);
        }
        errors.stuck = StuckTimer::long_ago();
        assert_eq!(errors.action(error(ENOBUFS), false), Action::Again);
        assert_eq!(errors.action(error(ENOBUFS), false), Action::Fail("refused"));
    }
}
