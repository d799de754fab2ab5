//! Membership of multicast groups, and the interface of what is sent to one (`ip(7)`, `ipv6(7)`).

use super::UdpSocket;
use super::address::Address;
use crate::call::{check, socket};
use crate::option::set;
use rustix::net::sockopt::{
    set_ip_add_membership_with_ifindex, set_ip_multicast_if_with_ifindex, set_ipv6_add_membership,
    set_ipv6_multicast_if,
};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `IPV6_MULTICAST_ALL` (include/uapi/linux/in6.h, Linux 4.20).
const IPV6_MULTICAST_ALL: libc::c_int = 29;

impl UdpSocket {
    /// Opens a socket that receives what is sent to the multicast group and port `group`, of which it becomes
    /// a member at the interface of number `interface`. 0 is the interface of the address's zone, or else the
    /// one that the route to the group leads to. Other sockets of this machine may do the same: each has all
    /// datagrams.
    ///
    /// # Errors
    /// `EADDRINUSE` if another socket has the port and does not share it, `ENODEV` without such an interface
    /// or route, `ENOBUFS` beyond the kernel's number of memberships, `EINVAL` for a link-local group without
    /// an interface.
    pub fn join(group: SocketAddr, interface: u32) -> io::Result<Self> {
        let group = with_scope(group, interface);
        let family = if group.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let opened = socket(family, libc::SOCK_DGRAM, 0)?;
        set(opened.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
        let mut address = Address::EMPTY;
        let len_bytes = address.write(&group) as libc::socklen_t;
        // SAFETY: the address has that many bytes, which the kernel reads.
        check(unsafe { libc::bind(opened.as_raw_fd(), address.0.as_ptr().cast(), len_bytes) })?;
        let joined = Self::of(std::net::UdpSocket::from(opened))?;
        join(joined.fd(), group, interface)?;
        Ok(joined)
    }

    /// Has datagrams to multicast groups leave by the interface of number `interface`, whatever the routes
    /// say.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn send_groups_by(&self, interface: u32) -> io::Result<()> {
        send_groups_by(self.fd(), self.local().is_ipv6(), interface)
    }
}

/// Makes the socket `fd` a member of `group`, and has it receive nothing that only other sockets are members
/// of.
fn join(fd: BorrowedFd<'_>, group: SocketAddr, interface: u32) -> io::Result<()> {
    match group {
        SocketAddr::V4(group) => {
            set_ip_add_membership_with_ifindex(fd, group.ip(), &Ipv4Addr::UNSPECIFIED, interface)?;
            set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0i32)
        }
        SocketAddr::V6(group) => {
            let interface = if interface == 0 { group.scope_id() } else { interface };
            set_ipv6_add_membership(fd, group.ip(), interface)?;
            // An older kernel may deliver more.
            let _ = set(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, &0i32);
            Ok(())
        }
    }
}

/// Has what the socket `fd` sends to groups leave by `interface`.
pub(super) fn send_groups_by(fd: BorrowedFd<'_>, is_ipv6: bool, interface: u32) -> io::Result<()> {
    if is_ipv6 {
        set_ipv6_multicast_if(fd, interface)?;
    }
    // An IPv6 socket sends IPv4 as well, to mapped addresses.
    let any = Ipv4Addr::UNSPECIFIED;
    Ok(set_ip_multicast_if_with_ifindex(fd, &any, &any, interface)?)
}

/// Returns `address` with the interface as its zone, if it is link-local and one is given: the kernel binds
/// and connects to no other.
pub(super) fn with_scope(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(mut v6) if interface > 0 && is_link_local(*v6.ip()) => {
            v6.set_scope_id(interface);
            v6.into()
        }
        address => address,
    }
}

/// True for a link-local or interface-local group, or a link-local address (RFC 4291).
fn is_link_local(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    match first {
        0xff => matches!(second & 0xf, 1 | 2),
        _ => first == 0xfe && second & 0xc0 == 0x80,
    }
}
