//! `SendErrors`: meaning of a send error for the frame at hand, and its report.
//!
//! On a connected socket an error may be about an earlier datagram: ICMP reported it, and the datagram at
//! hand was not looked at (udp(7)). So everything is tried twice: only an error that repeats is about the
//! datagram at hand.

use crate::iface::{StuckTimer, io_fault, take_error};
use crate::link::{
    EAGAIN, ECONNREFUSED, EINTR, EINVAL, EIO, EMSGSIZE, ENETDOWN, ENOBUFS, ENOMEM, EOPNOTSUPP, EPERM,
};
use std::io;
use wharf_core::device::DeviceError;
pub(super) use wharf_sys::errno::{EACCES, EADDRNOTAVAIL, EHOSTUNREACH};
use wharf_sys::errno::{EHOSTDOWN, ENETUNREACH};

/// Time that the kernel may be out of memory for a frame. The socket's buffer is not full then, so no
/// notification follows.
const STUCK_NS: u64 = 1_000_000_000;
/// Consecutive errors before a frame fails: each but two stands for an earlier datagram.
const IN_A_ROW_MAX: u32 = 64;

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
    stuck: StuckTimer,
    /// Datagrams that ICMP reported as port unreachable.
    refusals: u64,
    told: Vec<i32>,
    /// Error for the next reap.
    error: Option<DeviceError>,
}

impl SendErrors {
    pub(super) fn new(device: &str) -> Self {
        let (device, last, stuck, told, error) =
            (device.into(), None, StuckTimer::default(), Vec::new(), None);
        Self { device, last, in_a_row: 0, stuck, refusals: 0, told, error }
    }

    /// Notes that something was sent.
    #[inline]
    pub(super) fn over(&mut self) {
        if self.last.is_some() {
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
        self.note_refusal(error);
        if self.in_a_row <= IN_A_ROW_MAX { Action::Again } else { Action::Fail("connection-refused") }
    }

    /// Notes an ICMP report of an earlier datagram.
    pub(super) fn note_earlier(&mut self, source: io::Error) {
        match source.raw_os_error() {
            Some(ECONNREFUSED) => self.note_refusal(source),
            errno => self.tell(errno.unwrap_or(EINVAL), "an earlier datagram did not arrive", source),
        }
    }

    /// Counts a closed port; the report says how often.
    fn note_refusal(&mut self, source: io::Error) {
        self.refusals += 1;
        if self.refusals.is_power_of_two() {
            let times = match self.refusals {
                1 => String::new(),
                many => format!(" ({many} times so far)"),
            };
            let what = format!("no program listens there{times}; it goes on");
            self.error = Some(io_fault(&self.device, &what)(source));
        }
    }

    fn fail(&mut self, errno: i32, source: io::Error) -> Action {
        let (reason, what) = match errno {
            EMSGSIZE => ("too-long", "a datagram is longer than can be sent there"),
            ENETUNREACH | EHOSTUNREACH | EHOSTDOWN => ("unreachable", "there is no way to a destination"),
            EPERM | EACCES => ("not-permitted", "a firewall, or the lack of a right, forbids a datagram"),
            ENETDOWN => ("link-down", "the interface is down"),
            EADDRNOTAVAIL => ("bad-source", "the source address is not this machine's any more"),
            _ => ("refused", "the kernel refuses a datagram"),
        };
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
        take_error(&mut self.error)
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
        assert_eq!(errors.refusals, 1000);
        assert!(errors.take_error().unwrap_err().to_string().contains("512 times"));
        let last = (0..65).map(|_| errors.action(error(ECONNREFUSED), true)).last();
        assert_eq!(last, Some(Action::Fail("connection-refused")));
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
