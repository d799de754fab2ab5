//! `HostQueue`: the queue of the host's network stack behind a device: a witness of what became of packets that
//! the device had taken. Other programs' packets pass it, too.

use serde::Serialize;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use wharf_devices::spec::{DeviceSpec, Place};
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::netlink::{Netlink, RootQdisc};

/// The queue, and its counts as the run began.
#[derive(Debug)]
pub(crate) struct HostQueue {
    index: i32,
    before: RootQdisc,
}

/// What the queue counted during a run. The keys are a promise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HostQueueReport {
    /// Its kind, such as `fq_codel` or `htb`.
    pub(crate) kind: String,
    /// Packets that it handed to the driver.
    pub(crate) sent: u64,
    /// Packets that it dropped.
    pub(crate) dropped: u64,
    /// Packets that wait in it at the end.
    pub(crate) backlog: u64,
}

impl HostQueue {
    /// Finds the queue of the interface that the device `spec` sends by, where the kernel has one, and all
    /// frames pass it.
    pub(crate) fn of(spec: &DeviceSpec) -> Option<Self> {
        let options = spec.options();
        let index = match (spec.kind().name, spec.kind().place) {
            ("packet", Place::Interface(_)) if !options.is_on("bypass") => index_of(spec.place())?,
            // By the frames' own addresses they leave by any interface.
            ("udp", _) if options.word("dest") != Some("frame") => match options.text("interface") {
                Some(interface) => index_of(interface)?,
                None => index_to(spec.place())?,
            },
            _ => return None,
        };
        Some(Self { index, before: Netlink::root_qdisc(index).ok()?? })
    }

    /// Returns what it has counted since; `None` if it has gone.
    pub(crate) fn report(&self) -> Option<HostQueueReport> {
        let now = Netlink::root_qdisc(self.index).ok()?.filter(|now| now.kind == self.before.kind)?;
        // The kernel counts in 32 bits.
        let since = |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
        Some(HostQueueReport {
            sent: since(now.sent_packets, self.before.sent_packets),
            dropped: since(now.dropped_packets, self.before.dropped_packets),
            backlog: now.backlog_packets,
            kind: now.kind,
        })
    }
}

/// Returns the index of an interface.
fn index_of(interface: &str) -> Option<i32> {
    let socket = InterfaceSocket::open().ok()?;
    Some(Interface::find(socket.as_fd(), interface).ok()?.index)
}

/// Returns the index of the interface by which the kernel sends to `HOST:PORT`: that of the address's zone,
/// or as the routes say.
fn index_to(place: &str) -> Option<i32> {
    let (host, port) = place.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match (host, port.parse().ok()?).to_socket_addrs().ok()?.next()? {
        SocketAddr::V6(zoned) if zoned.scope_id() > 0 => i32::try_from(zoned.scope_id()).ok(),
        to if to.ip().is_unspecified() => None,
        to => Netlink::open().ok()?.interface_to(to.ip()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_devices::registry::Registry;

    #[test]
    fn the_interface_is_that_of_a_name_a_zone_or_an_option_and_none_is_guessed() {
        let found = ["127.0.0.1:9", "localhost:9", "[::1]:9", "[fe80::1%lo]:9"].map(index_to);
        assert_eq!([found[0], found[1], found[3]], [Some(1); 3], "lo is the first of any network");
        assert_eq!(["0.0.0.0:9", "127.0.0.1:x", "no such host.:9"].map(index_to), [None; 3]);
        for spec in ["packet:lo,bypass=on", "udp:127.0.0.1:9,dest=frame", "null:"] {
            let spec = Registry::default().parse(spec).unwrap();
            assert!(HostQueue::of(&spec).is_none(), "{spec}");
        }
    }
}
