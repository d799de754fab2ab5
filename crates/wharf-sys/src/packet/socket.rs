//! The socket and its options.

use crate::interface::{Interface, InterfaceState};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const _: () = assert!(size_of::<libc::sockaddr_ll>() == 20);
const _: () = assert!(size_of::<libc::packet_mreq>() == 16);
const _: () = assert!(size_of::<libc::tpacket_stats_v3>() == 12);

/// linux/if_packet.h (Linux 4.12): the kernel chooses a number that no group has.
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;

/// A raw AF_PACKET socket. Until it is bound for receiving, no frame is copied for it.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// What the kernel has counted since the last time it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Frames for the socket, those dropped included.
    pub packets: u32,
    /// Frames that there was no room for.
    pub drops: u32,
}

impl PacketSocket {
    /// Opens one.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Self> {
        // SAFETY: plain numbers; a descriptor that comes back is new and ours alone.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(Self { fd: OwnedFd::from_raw_fd(fd) }) }
        }
    }

    /// The socket's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Looks up the interface `name` in the socket's network namespace.
    ///
    /// # Errors
    /// As [`Interface::find`].
    pub fn interface(&self, name: &str) -> io::Result<Interface> {
        Interface::find(self.fd(), name)
    }

    /// How an interface stands now.
    ///
    /// # Errors
    /// As [`Interface::state`].
    pub fn interface_state(&self, interface: &Interface) -> io::Result<InterfaceState> {
        interface.state(self.fd())
    }

    /// Binds it to interface `index`, to send only.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn bind_to_send(&self, index: i32) -> io::Result<()> {
        self.bind(index, 0)
    }

    /// Binds it to interface `index`, and begins to receive every frame there.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn bind_to_receive(&self, index: i32) -> io::Result<()> {
        self.bind(index, libc::ETH_P_ALL as u16)
    }

    fn bind(&self, index: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: `sockaddr_ll` is plain numbers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: an address of that length.
        let returned = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
        check(returned as isize).map(drop)
    }

    /// Puts a header of [`super::VNET_HEADER_BYTES`] before each frame, both ways: PACKET_VNET_HDR. Before any ring.
    ///
    /// # Errors
    /// EBUSY when there is a ring already.
    pub fn enable_vnet_header(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)
    }

    /// Shares what its interface receives with the sockets of a group, by flow (PACKET_FANOUT_HASH): each frame then comes to one of
    /// them. It is bound to receive by now; what comes between that and this call, which the others have, too, it is not
    /// given if [`PacketSocket::refuse_all`] was called before. The group's number; a new group's without one.
    ///
    /// # Errors
    /// EINVAL when it is not bound, its interface is down, or the group is of another interface; ENOSPC when the group is full.
    pub fn join_fanout(&self, group: Option<u16>) -> io::Result<u16> {
        let kind = libc::PACKET_FANOUT_HASH | if group.is_none() { PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let request = u32::from(group.unwrap_or(0)) | kind << 16;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &request)?;
        let mut joined = 0u32;
        self.get(libc::SOL_PACKET, libc::PACKET_FANOUT, &mut joined)?;
        Ok(joined as u16)
    }

    /// Lets nothing come: by a filter of one instruction, `return 0`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn refuse_all(&self) -> io::Result<()> {
        let mut nothing = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Takes the filter away again.
    ///
    /// # Errors
    /// ENOENT when there is none.
    pub fn refuse_nothing(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    /// Sends past the queueing discipline, straight to the driver: PACKET_QDISC_BYPASS.
    ///
    /// # Errors
    /// ENOPROTOOPT before Linux 3.14.
    pub fn bypass_qdisc(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Does not receive what this host sends: PACKET_IGNORE_OUTGOING.
    ///
    /// # Errors
    /// ENOPROTOOPT before Linux 4.20.
    pub fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
    }

    /// Lets interface `index` take frames for any station, as long as the socket lives.
    ///
    /// # Errors
    /// ENODEV when there is none.
    pub fn make_promiscuous(&self, index: i32) -> io::Result<()> {
        let mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        let request = libc::packet_mreq { mr_ifindex: index, mr_type, mr_alen: 0, mr_address: [0; 8] };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Lets up to `bytes` of frames (counted with the kernel's own overhead) be under way; beyond the system's
    /// bound where the process may, else up to that.
    pub fn set_send_buffer(&self, bytes: usize) {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
        if self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            // Cannot fail: what is too much is cut down.
            let _ = self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
    }

    pub(super) fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the value has that many bytes, which the kernel reads.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, value, len) } as isize).map(drop)
    }

    fn get<T>(&self, level: libc::c_int, name: libc::c_int, value: &mut T) -> io::Result<()> {
        let mut len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value has room for that many bytes, and is plain numbers wherever this is called.
        let returned = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), level, name, (&raw mut *value).cast(), &raw mut len)
        };
        check(returned as isize).map(drop)
    }

    /// What has been counted since the last call; for sockets with a [`super::BlockRing`].
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub fn take_statistics(&self) -> io::Result<Statistics> {
        let mut stats = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats)?;
        Ok(Statistics { packets: stats.tp_packets, drops: stats.tp_drops })
    }

    /// The error that has come up since the last call: ENETDOWN when the interface went down or away.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut errno: libc::c_int = 0;
        match self.get(libc::SOL_SOCKET, libc::SO_ERROR, &mut errno) {
            Ok(()) if errno == 0 => None,
            Ok(()) => Some(io::Error::from_raw_os_error(errno)),
            Err(error) => Some(error),
        }
    }

    /// Bytes of frames under way, counted with the kernel's own overhead, until the device or a queueing discipline anywhere
    /// has let go of them: SIOCOUTQ.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: TIOCOUTQ, as libc calls it, writes one `int`.
        let returned = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ as _, &raw mut bytes) };
        check(returned as isize).map(|_| usize::try_from(bytes).unwrap_or(0))
    }

    /// Sends one frame, the `chunks` one after the other, without waiting.
    ///
    /// # Errors
    /// EAGAIN and ENOBUFS when there is no room now, EMSGSIZE beyond the MTU, ENETDOWN, ENXIO, EINVAL.
    pub fn send(&self, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: `msghdr` is plain numbers and addresses, for which zero is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = chunks.as_ptr().cast_mut().cast();
        message.msg_iovlen = chunks.len() as _;
        // SAFETY: `IoSlice` has the layout of `iovec`; the kernel only reads what they point to.
        check(unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) })
    }
}

/// The return of a libc call as a result: -1 becomes the error in `errno`.
pub(super) fn check(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
