//! The network interfaces of this machine, and the kinds of devices that can use each.

mod login;
mod uses;

pub use login::Login;
pub use uses::{INTERFACES, Uses};

use crate::host::number_in;
use crate::requirements::TUN;
use crate::spec::{Kind, Place};
use std::fs;
use std::os::fd::AsFd;
use wharf_sys::ethtool::Ethtool;
use wharf_sys::interface::{Interface, InterfaceSocket};

/// The interfaces of this thread's network namespace, one a line behind two lines of headings: proc_pid_net(5).
const LIST: &str = "/proc/thread-self/net/dev";
/// Faster than any wire, Mbit/s; a driver that does not know its speed reports more.
const SPEED_MBIT_MAX: u64 = 100_000_000;

/// An interface of this machine, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// True if its frames begin with an Ethernet header, which every device of Wharf needs.
    pub is_ethernet: bool,
    /// True if it is switched on.
    pub is_up: bool,
    /// True if it is switched on and its other end is there.
    pub has_carrier: bool,
    /// Length of the longest payload of a frame, bytes.
    pub mtu_bytes: u32,
    /// The kernel's driver, if it tells.
    pub driver: Option<String>,
    /// Speed of the wire, Mbit/s, if the driver knows it.
    pub speed_mbit: Option<u64>,
}

impl HostInterface {
    /// Looks at the interface `name`; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        let socket = InterfaceSocket::open().ok()?;
        let interface = Interface::find(socket.as_fd(), name).ok()?;
        let state = interface.state(socket.as_fd()).ok()?;
        let speed = number_in(&format!("/sys/class/net/{name}/speed"));
        Some(Self {
            name: name.into(),
            is_ethernet: interface.is_ethernet,
            is_up: state.is_up,
            has_carrier: state.is_running,
            mtu_bytes: state.mtu_bytes,
            driver: Ethtool::open().and_then(|ethtool| ethtool.driver(name)).ok().map(|(driver, _)| driver),
            speed_mbit: speed.filter(|speed| (1..=SPEED_MBIT_MAX).contains(speed)),
        })
    }

    /// Looks at all interfaces of this thread's network namespace, by name.
    pub fn all() -> Vec<Self> {
        let list = fs::read_to_string(LIST).unwrap_or_default();
        let names = list.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
        let mut all: Vec<Self> = names.filter_map(Self::find).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Returns true if a device of `kind` can use it. A kind that makes TUN and TAP interfaces can use those alone.
    pub fn is_for(&self, kind: &Kind) -> bool {
        let is_tap = self.driver.as_deref() == Some("tun");
        matches!(kind.place, Place::Interface(_))
            && self.is_ethernet
            && (is_tap || !kind.requirements.contains(&TUN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn loopback_is_listed_and_no_tap() {
        let all = HostInterface::all();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(
            lo.is_ethernet && lo.mtu_bytes > 0 && Some(lo) == HostInterface::find("lo").as_ref(),
            "{lo:?}"
        );
        assert_eq!(HostInterface::find("none-such-there"), None);
        let registry = Registry::default();
        let kinds: Vec<&str> =
            registry.kinds().iter().filter(|kind| lo.is_for(kind)).map(|kind| kind.name).collect();
        assert!(!kinds.contains(&"tap") && !kinds.contains(&"udp"), "{kinds:?}");
        if cfg!(all(feature = "packet", feature = "xdp")) {
            assert_eq!(kinds, ["packet", "xdp"]);
        }
    }
}
