//! The uses that this host makes of an interface, which end when its adapter is taken away.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use wharf_sys::interface::{Interface, InterfaceSocket};

/// Interfaces of the network namespace that sysfs was mounted in.
const INTERFACES: &str = "/sys/class/net";
/// Packet sockets (`AF_PACKET`) of this thread's network namespace (`packet_seq_show`).
const PACKET_SOCKETS: &str = "/proc/thread-self/net/packet";
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
    if has_one {
        return Some("has an address");
    }
    let folder = Path::new(INTERFACES).join(name);
    if has_upper(&folder) {
        return Some("is below another interface (bridge, bond, VLAN)");
    }
    let index = read(&folder.join("ifindex").to_string_lossy());
    has_packet_socket(&read(PACKET_SOCKETS), index.trim()).then_some("has the packet socket of a program")
}

/// True if the interface with folder `folder` in sysfs belongs to another one, or carries one.
fn has_upper(folder: &Path) -> bool {
    super::names(folder).iter().any(|name| name == "master" || name.starts_with("upper_"))
}

/// True if the text of `packet` has a socket that is bound to interface `index`.
fn has_packet_socket(sockets: &str, index: &str) -> bool {
    sockets.lines().skip(1).any(|line| line.split_whitespace().nth(4) == Some(index))
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
    fn packet_sockets_are_found_by_the_index_of_their_interface() {
        let sockets = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
            0000000000000000 3      3    0003   2     1 0      0      31415\n\
            0000000000000000 3      10   88cc   0     1 0      0      31416\n";
        assert_eq!(["2", "3", ""].map(|index| has_packet_socket(sockets, index)), [true, false, false]);
        assert!(!has_packet_socket("", ""));
    }

    #[test]
    fn an_interface_below_another_is_found_by_its_links_in_sysfs() {
        let folder = std::env::temp_dir().join(format!("wharf-uses-{}", std::process::id()));
        for (name, expected) in [("queues", false), ("upper_br0", true)] {
            fs::create_dir_all(folder.join(name)).unwrap();
            assert_eq!(has_upper(&folder), expected, "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn loopback_has_an_address_and_an_unknown_interface_no_use() {
        assert_eq!([of("lo"), of("none-such-there")], [Some("has an address"), None]);
    }
}
