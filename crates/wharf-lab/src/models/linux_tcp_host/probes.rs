//! Small packets whose answers programs wait for, all at once, as netperf-wrapper's `qdisc_prio_hol` of 2014
//! sends them: UDP_RR and TCP_RR of high priority, which ask again when answered, and two echo requests at
//! intervals. The measured delay is that of UDP_RR.
//!
//! The others matter, too: a few bytes more or less decide whether a bulk of super-packets ends where the
//! driver stops.

use super::Setup;
use super::host::{HIGH, NORMAL};

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Udp,
    Tcp,
    /// Echo requests of high priority and of none.
    Ping,
    PlainPing,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Udp, Kind::Tcp, Kind::Ping, Kind::PlainPing];

    /// True if it asks again as soon as it is answered; the others go by the clock.
    pub(super) fn follows(self) -> bool {
        matches!(self, Kind::Udp | Kind::Tcp)
    }

    pub(super) fn band(self) -> u8 {
        if self == Kind::PlainPing { NORMAL } else { HIGH }
    }

    /// Returns its bytes as the driver counts them.
    pub(super) fn bytes(self, setup: &Setup) -> u32 {
        match self {
            Kind::Udp => setup.udp_probe_bytes,
            Kind::Tcp => setup.tcp_probe_bytes,
            Kind::Ping | Kind::PlainPing => setup.ping_bytes,
        }
    }
}
