//! Findings about `udp:`, for a diagnosis.

use crate::doctor::finding::Finding;
use crate::doctor::{Doctor, Effect};
use crate::host::number_in;
use crate::requirements::{Machine, NET_ADMIN};
use crate::spec::DeviceSpec;
use std::net::{IpAddr, ToSocketAddrs};
use wharf_sys::netlink::Netlink;

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect: |_, _| Effect::None };

fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    buffers(spec).into_iter().chain(neighbour(spec)).collect()
}

/// Returns a hint if the system's bound keeps the socket's receive buffer below what is asked for.
fn buffers(spec: &DeviceSpec) -> Option<Finding> {
    let wanted = spec.number::<u64>("buffer").unwrap_or(super::BUFFER_BYTES as u64);
    let least = number_in::<u64>("/proc/sys/net/core/rmem_max")?;
    if least >= wanted || Machine::look().has(&NET_ADMIN) {
        return Some(Finding::fact("buffers", format!("the socket gets a receive buffer of {wanted} bytes")));
    }
    let what = format!(
        "the socket gets a receive buffer of {least} bytes, not of {wanted}: bursts are dropped (socket-full)"
    );
    let mend = format!("sudo sysctl net.core.rmem_max={wanted}");
    Some(Finding::hint("buffers", what).mend(mend).with("bytes", least))
}

/// Returns a hint if no neighbour answers on the way to the address.
fn neighbour(spec: &DeviceSpec) -> Option<Finding> {
    let address = spec.place().to_socket_addrs().ok()?.next()?.ip();
    let local =
        |address: &IpAddr| address.is_loopback() || address.is_unspecified() || address.is_multicast();
    let lacks = !local(&address) && Netlink::open().ok()?.lacks_neighbour(address).unwrap_or(false);
    lacks.then(|| {
        let what = format!("no neighbour has answered on the way to {address}: packets fail as unreachable");
        Finding::hint("neighbour", what).mend(format!("ip route get {address}; ip neigh"))
    })
}
