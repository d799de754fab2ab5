//! The uses that this host makes of an interface, which end when its adapter is taken away.

use std::fs;
use std::os::fd::AsFd;
use wharf_sys::interface::{Interface, InterfaceSocket};

/// Routes, and IPv6 addresses, of this thread's network namespace: proc_pid_net(5).
const ROUTES: &str = "/proc/thread-self/net/route";
const ROUTES_IPV6: &str = "/proc/thread-self/net/ipv6_route";
const ADDRESSES_IPV6: &str = "/proc/thread-self/net/if_inet6";
/// `IPV6_ADDR_LINKLOCAL`, as the list prints it: the kernel gives such an address to each interface.
const LINK_LOCAL: &str = "20";
/// Flags of a route: it is usable, it refuses packets. Loopback has one of the latter where there is no other.
const RTF_UP: u32 = 1;
const RTF_REJECT: u32 = 0x200;

/// Returns the use of interface `name` that weighs most; `None` if there is none.
pub(super) fn of(name: &str) -> Option<&'static str> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    if has_default_route(&read(ROUTES), &read(ROUTES_IPV6), name) {
        return Some("carries the default route");
    }
    let has_ipv4 = || {
        let socket = InterfaceSocket::open().ok()?;
        Interface::find(socket.as_fd(), name).ok()?.has_ipv4_address().ok()
    };
    let has_one = has_ipv4().unwrap_or(false) || has_ipv6(&read(ADDRESSES_IPV6), name);
    has_one.then_some("has an address")
}

/// True if the text of `route`, or that of `ipv6_route`, has a default route over the interface.
fn has_default_route(routes: &str, routes_ipv6: &str, name: &str) -> bool {
    let of_ipv4 = routes.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&name) && words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000")
    });
    let of_ipv6 = routes_ipv6.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_default = words.first().is_some_and(|to| to.bytes().all(|digit| digit == b'0'))
            && words.get(1) == Some(&"00");
        let flags = words.get(8).and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0);
        words.last() == Some(&name) && is_default && flags & (RTF_UP | RTF_REJECT) == RTF_UP
    });
    of_ipv4 || of_ipv6
}

/// True if the text of `if_inet6` has an address of the interface that is not the kernel's own choice.
fn has_ipv6(addresses: &str, name: &str) -> bool {
    addresses.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.last() == Some(&name) && words.get(3) != Some(&LINK_LOCAL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_and_addresses_are_found_in_the_kernels_lists() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth1\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let zero = "0".repeat(32);
        let ipv6 = format!(
            "{zero} 00 {zero} 00 fe80000000000000 00000400 00000001 00000000 00000003 eth2\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        let found = |name| has_default_route(routes, &ipv6, name);
        assert_eq!(["eth0", "eth1", "eth2", "eth", "lo"].map(found), [true, false, true, false, false]);
        let addresses = "fe80000000000000505400fffe123456 02 40 20 80     eth0\n\
            20010db8000000000000000000000001 03 40 00 80     eth1\n";
        assert_eq!(["eth0", "eth1"].map(|name| has_ipv6(addresses, name)), [false, true]);
    }

    #[test]
    fn loopback_has_an_address_and_an_unknown_interface_no_use() {
        assert_eq!([of("lo"), of("none-such-there")], [Some("has an address"), None]);
    }
}
