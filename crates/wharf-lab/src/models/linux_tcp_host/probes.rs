//! Small packets that others wait for, all at once, as netperf-wrapper's `qdisc_prio_hol` of 2014 sends them: UDP_RR and TCP_RR
//! of high priority, which ask again when they are answered, and two echo requests every so often. The delay is that of UDP_RR.
//!
//! The others matter, too: a few bytes more or less under way decide whether a bulk of super-packets ends where the driver stops.

use super::Setup;
use super::host::{HIGH, NORMAL};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Udp,
    Tcp,
    /// An echo request of high priority, and one of none.
    Ping,
    PlainPing,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Udp, Kind::Tcp, Kind::Ping, Kind::PlainPing];

    /// Asks again as soon as it is answered; the others by the clock.
    pub(super) fn follows(self) -> bool {
        matches!(self, Kind::Udp | Kind::Tcp)
    }

    pub(super) fn band(self) -> u8 {
        if self == Kind::PlainPing { NORMAL } else { HIGH }
    }

    /// As the driver counts it.
    pub(super) fn bytes(self, setup: &Setup) -> u32 {
        match self {
            Kind::Udp => setup.udp_probe_bytes,
            Kind::Tcp => setup.tcp_probe_bytes,
            Kind::Ping | Kind::PlainPing => setup.ping_bytes,
        }
    }
}
