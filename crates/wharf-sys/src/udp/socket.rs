//! The socket and its options.

use crate::option::{get, set};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// getsockopt(2), level SOL_SOCKET: include/uapi/asm-generic/socket.h, and what it gives, include/uapi/linux/sock_diag.h.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_NUMBERS: usize = 9;

/// A UDP socket, IPv4 or IPv6. Nothing ever waits in it.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    local: SocketAddr,
}

impl UdpSocket {
    /// A socket that receives what is sent to `local`, and sends from it.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL for an address of another machine, EACCES for a port below 1024.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(local)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local })
    }

    /// A socket from a port that the kernel chooses to `peer`, from which alone it receives.
    ///
    /// # Errors
    /// ENETUNREACH where there is no way to it, EACCES for a broadcast address.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let any = if peer.is_ipv4() {
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
        } else {
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
        };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect(peer)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local })
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Its own address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What ICMP has told of datagrams sent since the last call, if that was not the answer to another one: SO_ERROR.
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Whether the kernel knows segmented sends: UDP_SEGMENT, Linux 4.18. Any single one may still be refused.
    pub fn can_segment(&self) -> bool {
        get(self.fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &mut [0]).is_ok()
    }

    /// Lets the kernel put datagrams of one flow together: UDP_GRO, Linux 5.0; whether it knows that.
    pub fn join_received(&self) -> bool {
        set(self.fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32).is_ok()
    }

    /// Has the address told that each datagram was sent to: IP_PKTINFO, IPV6_RECVPKTINFO.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn tell_destinations(&self) -> io::Result<()> {
        match self.local {
            SocketAddr::V4(_) => set(self.fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, &1i32),
            SocketAddr::V6(_) => set(self.fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32),
        }
    }

    /// Lets up to `bytes` (counted with the kernel's own overhead) wait to be received; beyond the system's bound where
    /// the process may, else up to that.
    pub fn set_receive_buffer(&self, bytes: usize) {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
        if set(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
            // Cannot fail: what is too much is cut down.
            let _ = set(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
        }
    }

    /// Datagrams that there was no room for since the socket was opened; the number wraps. Several that had been put
    /// together ([`UdpSocket::join_received`]) count as one.
    ///
    /// # Errors
    /// ENOPROTOOPT before Linux 4.12.
    pub fn drops(&self) -> io::Result<u32> {
        let mut numbers = [0; MEMINFO_NUMBERS];
        get(self.fd(), libc::SOL_SOCKET, SO_MEMINFO, &mut numbers)?;
        Ok(numbers[libc::SK_MEMINFO_DROPS as usize])
    }
}
