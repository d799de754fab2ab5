//! The UDP socket and its options.

use super::multicast::{send_groups_by, with_scope};
use crate::call::queue_bytes;
use crate::netlink::Netlink;
use crate::option::{get, set, set_buffer};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// `SO_MEMINFO` (include/uapi/asm-generic/socket.h) and an index of what it returns
/// (include/uapi/linux/sock_diag.h).
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_NUMBERS: usize = 9;

/// A UDP socket, IPv4 or IPv6. No call waits.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    local: SocketAddr,
}

impl UdpSocket {
    /// Opens a socket that receives what is sent to `local`, and sends from there.
    ///
    /// # Errors
    /// `EADDRINUSE`; `EADDRNOTAVAIL` for another machine's address; `EACCES` for a port below 1024.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        Self::of(std::net::UdpSocket::bind(local)?)
    }

    pub(super) fn of(socket: std::net::UdpSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        Ok(Self { socket, local })
    }

    /// Opens a socket from a port that the kernel chooses to `peer`, from which alone it receives. To a
    /// multicast group it sends by the interface of number `interface`, or that of the address's zone; 0: as
    /// the routes say.
    ///
    /// # Errors
    /// `ENETUNREACH` without a route, `EACCES` for a broadcast address.
    pub fn connect(peer: SocketAddr, interface: u32) -> io::Result<Self> {
        let any: IpAddr =
            if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = std::net::UdpSocket::bind((any, 0))?;
        let peer = with_scope(peer, interface);
        let zone = if let SocketAddr::V6(peer) = peer { peer.scope_id() } else { 0 };
        let interface = if interface == 0 { zone } else { interface };
        if peer.ip().is_multicast() && interface > 0 {
            send_groups_by(socket.as_fd(), peer.is_ipv6(), interface)?;
        }
        socket.connect(peer)?;
        Self::of(socket)
    }

    /// Returns the socket's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the socket's own address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns true if no neighbour answers on the way to the socket's peer; `None` if that is not known: it
    /// is not connected, or to an address with a zone.
    pub fn lacks_neighbour(&self) -> Option<bool> {
        let peer = self.socket.peer_addr().ok()?;
        if matches!(peer, SocketAddr::V6(peer) if peer.scope_id() > 0) {
            return None;
        }
        match Netlink::open().and_then(|netlink| netlink.lacks_neighbour(peer.ip())) {
            // What waits for a neighbour makes the kernel know it.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Some(false),
            lacks => lacks.ok(),
        }
    }

    /// Returns the error that ICMP has reported of a datagram since the last call, unless another call has
    /// returned it (`SO_ERROR`).
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// True if the kernel knows segmented sends (`UDP_SEGMENT`, Linux 4.18). It may still refuse a single
    /// one.
    pub fn can_segment(&self) -> bool {
        get(self.fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &mut [0]).is_ok()
    }

    /// Makes the kernel coalesce datagrams of one flow (`UDP_GRO`, Linux 5.0), and returns true if it knows
    /// that.
    pub fn join_received(&self) -> bool {
        set(self.fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32).is_ok()
    }

    /// Makes the kernel report each datagram's destination address (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn tell_destinations(&self) -> io::Result<()> {
        match self.local {
            SocketAddr::V4(_) => set(self.fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32),
            SocketAddr::V6(_) => set(self.fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32),
        }
    }

    /// Makes the kernel queue a report of each datagram that ICMP reports as undelivered, and those for which no
    /// neighbour answers (`IP_RECVERR`, `IPV6_RECVERR`): see [`UdpSocket::next_report`]. A datagram that a full
    /// queueing discipline drops is then an `ENOBUFS` of the call that sends it.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub fn report_errors(&self) -> io::Result<()> {
        // An IPv6 socket sends IPv4 as well, to mapped addresses.
        if self.local.is_ipv6() {
            set(self.fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &1i32)?;
        }
        set(self.fd(), libc::IPPROTO_IP, libc::IP_RECVERR, &1i32)
    }

    /// Returns the bytes of datagrams that have not left this host, with the kernel's overhead (`SIOCOUTQ`): they wait
    /// in a queueing discipline, an adapter, or for a neighbour's address.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        queue_bytes(self.fd())
    }

    /// Sets the receive buffer, bytes, with the kernel's overhead. A process without `CAP_NET_ADMIN` gets at
    /// most the system's bound.
    pub fn set_receive_buffer(&self, bytes: usize) {
        set_buffer(self.fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
    }

    /// Returns the number of datagrams dropped for lack of room since the socket was opened; the number
    /// wraps. Coalesced datagrams ([`UdpSocket::join_received`]) count as one.
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 4.12.
    pub fn drops(&self) -> io::Result<u32> {
        let mut numbers = [0; MEMINFO_NUMBERS];
        get(self.fd(), libc::SOL_SOCKET, SO_MEMINFO, &mut numbers)?;
        Ok(numbers[libc::SK_MEMINFO_DROPS as usize])
    }
}
