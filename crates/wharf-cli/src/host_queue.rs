//! `HostQueue`: the queue of the host's network stack behind a device: a witness of what became of packets that
//! the device had taken. Other programs' packets pass it, too.

use serde::Serialize;
use std::net::SocketAddr;
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
    /// Finds the queue of the interface that the device `spec`, named `name`, sends by, where the kernel has one.
    pub(crate) fn of(spec: &DeviceSpec, name: &str) -> Option<Self> {
        let index = match (spec.kind().name, spec.kind().place) {
            ("packet", Place::Interface(_)) => {
                let socket = InterfaceSocket::open().ok()?;
                Interface::find(socket.as_fd(), spec.place()).ok()?.index
            }
            ("udp", _) => {
                let address = name.strip_prefix("udp:")?.parse::<SocketAddr>().ok()?.ip();
                Netlink::open().ok()?.interface_to(Some(address).filter(|to| !to.is_unspecified())?).ok()?
            }
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
