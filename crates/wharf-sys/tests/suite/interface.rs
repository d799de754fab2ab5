//! Questions about network interfaces, and names of TAPs.

use std::os::fd::AsFd;
use wharf_sys::ethtool::Ethtool;
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::netlink::Netlink;
use wharf_sys::tap::Tap;

/// Reads the same counter from sysfs: another way through the kernel to it.
fn drops_by_sysfs(name: &str) -> u64 {
    let path = format!("/sys/class/net/{name}/statistics/tx_dropped");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn drops_are_those_of_sysfs_for_each_interface() {
    let (netlink, asker) = (Netlink::open().unwrap(), InterfaceSocket::open().unwrap());
    for entry in std::fs::read_dir("/sys/class/net").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Ok(interface) = Interface::find(asker.as_fd(), &name) else { continue };
        let before = drops_by_sysfs(&name);
        let drops = netlink.transmit_drops(&interface).unwrap();
        assert!((before..=drops_by_sysfs(&name)).contains(&drops), "{name}: {drops}, sysfs {before}");
    }
}

#[test]
fn an_interface_that_is_gone_is_an_error() {
    let gone = Interface { index: i32::MAX, is_ethernet: true };
    let error = Netlink::open().unwrap().transmit_drops(&gone).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn an_interface_without_rings_is_an_error() {
    let ethtool = Ethtool::open().unwrap();
    for name in ["lo", "no-such-if", "much-too-long-a-name", ""] {
        assert!(ethtool.rings(name).is_err(), "{name}");
    }
    assert_eq!(ethtool.driver("no-such-if").unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn a_name_that_no_interface_may_have_is_refused() {
    for name in ["a", "tap0", "wharf-tap.1_2", "fifteen-bytes-x"] {
        assert!(Tap::is_name(name), "{name}");
    }
    for name in ["", ".", "..", "sixteen-bytes-xx", "a/b", "a b", "a\tb", "a:b", "tap%d", "a\0b", "\n"] {
        assert!(!Tap::is_name(name), "{name:?}");
        assert_eq!(Tap::open(name, false).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{name:?}");
    }
}
