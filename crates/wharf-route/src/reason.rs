//! `Reason`: why a packet did not leave, and `Fate`: what became of it.

use std::fmt;
use wharf_net::NoHop;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is with its port, or in the burst that goes there next.
    Routed,
    /// It waits for the MAC of its neighbour.
    Waits,
    /// It was dropped, and counted.
    Dropped(Reason),
}

/// Why a packet did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No route leads there (`ENETUNREACH`).
    NoRoute,
    /// A route or a rule says that it cannot be reached (`EHOSTUNREACH`).
    Unreachable,
    /// A route or a rule prohibits it (`EACCES`).
    Prohibited,
    /// A route or a rule drops it in silence.
    Blackhole,
    /// The neighbour does not answer, or too many packets wait for it.
    NoNeighbour,
    /// It is longer than the route's or the path's MTU.
    TooBig,
    /// Its time to live or hop limit was at its end.
    Expired,
    /// The router has no port for the interface that it would leave by.
    NoPort,
    /// It is for this host: the kernel has to take it.
    ThisHost,
    /// It came in a frame that was not sent to this host's MAC, or is no IP packet of a host.
    NotForwarded,
    /// The way is one that only the kernel can send by: a bridge that does not know the MAC, an unknown kind
    /// of interface, a super-packet into a tunnel.
    NotSupported,
    /// Its headers do not fit in front of it: see [`HEADROOM_BYTES`](crate::HEADROOM_BYTES).
    NoHeadroom,
    /// It is no whole IP packet.
    Malformed,
    /// The port had no room within the wait.
    Full,
}

impl Reason {
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All reasons.
    pub const ALL: [Self; 14] = [
        Self::NoRoute,
        Self::Unreachable,
        Self::Prohibited,
        Self::Blackhole,
        Self::NoNeighbour,
        Self::TooBig,
        Self::Expired,
        Self::NoPort,
        Self::ThisHost,
        Self::NotForwarded,
        Self::NotSupported,
        Self::NoHeadroom,
        Self::Malformed,
        Self::Full,
    ];

    /// Returns its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRoute => "no-route",
            Self::Unreachable => "unreachable",
            Self::Prohibited => "prohibited",
            Self::Blackhole => "blackhole",
            Self::NoNeighbour => "no-neighbour",
            Self::TooBig => "too-big",
            Self::Expired => "ttl-expired",
            Self::NoPort => "no-port",
            Self::ThisHost => "this-host",
            Self::NotForwarded => "not-forwarded",
            Self::NotSupported => "not-supported",
            Self::NoHeadroom => "no-headroom",
            Self::Malformed => "malformed",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl From<NoHop> for Reason {
    fn from(none: NoHop) -> Self {
        match none {
            NoHop::NoRoute => Self::NoRoute,
            NoHop::Unreachable => Self::Unreachable,
            NoHop::Prohibited => Self::Prohibited,
            NoHop::Blackhole => Self::Blackhole,
            _ => Self::NotSupported,
        }
    }
}
