//! The packet socket and its options.

use crate::call::{self, Pages, check};
use crate::interface::{Interface, InterfaceState};
use crate::option::{get, set, set_buffer};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const _: () = assert!(size_of::<libc::sockaddr_ll>() == 20);
const _: () = assert!(size_of::<libc::packet_mreq>() == 16);
const _: () = assert!(size_of::<libc::tpacket_stats_v3>() == 12);

/// A raw AF_PACKET socket. Until it is bound for receiving, the kernel copies no frame for it.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// The kernel's counters since they were last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Frames for the socket, those dropped included.
    pub packets: u32,
    /// Frames dropped for lack of room.
    pub drops: u32,
}

impl PacketSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`.
    pub fn open() -> io::Result<Self> {
        call::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(|fd| Self { fd })
    }

    /// Returns the socket's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns an interface's state.
    ///
    /// # Errors
    /// Those of [`Interface::state`].
    pub fn interface_state(&self, interface: &Interface) -> io::Result<InterfaceState> {
        interface.state(self.fd())
    }

    /// Binds the socket to interface `index`, to send only.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn bind_to_send(&self, index: i32) -> io::Result<()> {
        self.bind(index, 0)
    }

    /// Binds the socket to interface `index`, and receives every frame there.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn bind_to_receive(&self, index: i32) -> io::Result<()> {
        self.bind(index, libc::ETH_P_ALL as u16)
    }

    fn bind(&self, index: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: `sockaddr_ll` is plain numbers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index;
        call::bind(self.fd(), &address)
    }

    /// Puts a header of [`super::VNET_HEADER_BYTES`] in front of each frame, both ways (`PACKET_VNET_HDR`).
    /// To be called before a ring is made.
    ///
    /// # Errors
    /// `EBUSY` if there is a ring.
    pub fn enable_vnet_header(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)
    }

    /// Joins the sockets of a fanout group, which share what their interface receives by flow
    /// (`PACKET_FANOUT_HASH`): each frame comes to one of them. The socket is bound to receive. Frames that
    /// come between its binding and this call, which the others have, too, are refused if
    /// [`PacketSocket::refuse_all`] was called before. Returns the group's number: that of a new group if
    /// `group` is `None`.
    ///
    /// # Errors
    /// `EINVAL` if the socket is not bound, its interface is down, or the group is of another interface;
    /// `ENOSPC` if the group is full.
    pub fn join_fanout(&self, group: Option<u16>) -> io::Result<u16> {
        let kind =
            libc::PACKET_FANOUT_HASH | if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let join = |flag: u32| {
            let request = u32::from(group.unwrap_or(0)) | (kind | flag) << 16;
            self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &request)
        };
        // A group has a hook of its own, which `ignore_outgoing` does not concern. An older kernel refuses the flag.
        join(libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING).or_else(|_| join(0))?;
        let mut joined = [0u32];
        get(self.fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, &mut joined)?;
        Ok(joined[0] as u16)
    }

    /// Refuses all frames, by a filter of one instruction (`return 0`).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn refuse_all(&self) -> io::Result<()> {
        let mut nothing = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Sends past the queueing discipline, straight to the driver (`PACKET_QDISC_BYPASS`).
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 3.14.
    pub fn bypass_qdisc(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Does not receive what this host sends (`PACKET_IGNORE_OUTGOING`).
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 4.20.
    pub fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
    }

    /// Makes interface `index` promiscuous, as long as the socket lives.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn make_promiscuous(&self, index: i32) -> io::Result<()> {
        let mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        let request = libc::packet_mreq { mr_ifindex: index, mr_type, mr_alen: 0, mr_address: [0; 8] };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Sets the send buffer: bytes of frames, with the kernel's overhead, that may be in the kernel. A
    /// process without `CAP_NET_ADMIN` gets at most the system's bound.
    pub fn set_send_buffer(&self, bytes: usize) {
        set_buffer(self.fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
    }

    pub(super) fn set<T: Copy>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        set(self.fd(), level, name, value)
    }

    /// Maps the ring of `len_bytes` that was made with this socket.
    pub(super) fn map_ring(&self, len_bytes: usize) -> io::Result<Pages> {
        Pages::map(Some(self.fd()), 0, len_bytes, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// Reads the counters since the last call; for sockets with a [`super::BlockRing`].
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn take_statistics(&self) -> io::Result<Statistics> {
        // `struct tpacket_stats_v3`: packets, drops, and the number of times that the queue was frozen.
        let mut numbers = [0u32; 3];
        get(self.fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut numbers)?;
        Ok(Statistics { packets: numbers[0], drops: numbers[1] })
    }

    /// Returns the error since the last call: `ENETDOWN` if the interface went down or was removed.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut errno: libc::c_int = 0;
        match get(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, &mut errno) {
            Ok(_) if errno == 0 => None,
            Ok(_) => Some(io::Error::from_raw_os_error(errno)),
            Err(error) => Some(error),
        }
    }

    /// Returns the bytes of frames, with the kernel's overhead, that no device or queueing discipline has let
    /// go of yet (`SIOCOUTQ`).
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        call::queue_bytes(self.fd())
    }

    /// Sends one frame, the `chunks` in order, without waiting.
    ///
    /// # Errors
    /// `EAGAIN` and `ENOBUFS` if there is no room now, `EMSGSIZE` beyond the MTU, `ENETDOWN`, `ENXIO`,
    /// `EINVAL`.
    pub fn send(&self, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: `msghdr` is plain numbers and addresses, for which zero is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = chunks.as_ptr().cast_mut().cast();
        message.msg_iovlen = chunks.len() as _;
        // SAFETY: `IoSlice` has the layout of `iovec`. The kernel only reads what they point to.
        check(unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) })
    }
}
