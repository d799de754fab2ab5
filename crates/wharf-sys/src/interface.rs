//! What the kernel says of a network interface: netdevice(7). Almost any socket can be asked (those of AF_XDP cannot), and
//! knows the interfaces of the network namespace that it was opened in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const _: () = assert!(size_of::<libc::ifreq>() == 40);

// linux/sockios.h and linux/ethtool.h; not in libc 0.2.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GLINK: u32 = 0x0a;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

const _: () = assert!(size_of::<EthtoolValue>() == 8);

/// An interface, by the number that stays the same when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its number in the socket's network namespace.
    pub index: i32,
    /// Whether its frames begin with an Ethernet header.
    pub is_ethernet: bool,
}

/// What may change about an interface while it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceState {
    /// Longest payload of a frame, bytes, Ethernet header and VLAN tag not counted.
    pub mtu_bytes: u32,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it has a carrier, too: the other end is there.
    pub is_running: bool,
}

/// A socket for nothing but questions, and no privilege.
#[derive(Debug)]
pub struct Asker(OwnedFd);

impl Asker {
    /// Opens one.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn open() -> io::Result<Self> {
        // SAFETY: plain numbers; a descriptor that comes back is new and ours alone.
        unsafe {
            let fd = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(Self(OwnedFd::from_raw_fd(fd))) }
        }
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interface {
    /// Looks up the interface `name` in the network namespace of `socket`.
    ///
    /// # Errors
    /// ENODEV when there is none; a name longer than 15 bytes names none.
    pub fn find(socket: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        let mut request = empty_request();
        let fits = name.len() < request.ifr_name.len() && !name.is_empty() && !name.contains('\0');
        if !fits {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        ask(socket, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX fills this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        ask(socket, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: SIOCGIFHWADDR fills this one.
        let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        Ok(Self { index, is_ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) })
    }

    /// How it stands now.
    ///
    /// # Errors
    /// ENODEV when it is gone; EAGAIN while it is being renamed.
    pub fn state(&self, socket: BorrowedFd<'_>) -> io::Result<InterfaceState> {
        self.state_by_name(socket).map_err(|error| {
            // For milliseconds it has its new name, and is not to be found by it (`dev_change_name` in net/core/dev.c).
            let is_there = error.raw_os_error() == Some(libc::ENODEV) && self.named(socket).is_ok();
            if is_there { io::Error::from_raw_os_error(libc::EAGAIN) } else { error }
        })
    }

    fn state_by_name(&self, socket: BorrowedFd<'_>) -> io::Result<InterfaceState> {
        let mut request = self.named(socket)?;
        ask(socket, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU fills this member of the union.
        let mtu_bytes = unsafe { request.ifr_ifru.ifru_mtu };
        let (is_up, mut is_running) = flags(socket, &mut request)?;
        if is_up && !is_running && sync_carrier(socket, &mut request).is_ok() {
            is_running = flags(socket, &mut request)?.1;
        }
        Ok(InterfaceState { mtu_bytes: mtu_bytes.max(0) as u32, is_up, is_running: is_up && is_running })
    }
}

impl Interface {
    /// Switches it on.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN, ENODEV when it is gone.
    pub fn bring_up(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut request = self.named(socket)?;
        ask(socket, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS fills this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ask(socket, libc::SIOCSIFFLAGS, &mut request)
    }

    /// Sets the longest payload of a frame.
    ///
    /// # Errors
    /// EINVAL when the interface allows no such MTU; as [`Interface::bring_up`].
    pub fn set_mtu(&self, socket: BorrowedFd<'_>, mtu_bytes: i32) -> io::Result<()> {
        let mut request = self.named(socket)?;
        request.ifr_ifru.ifru_mtu = mtu_bytes;
        ask(socket, libc::SIOCSIFMTU, &mut request)
    }

    /// Sets how many frames wait in each of its queues: of a TAP, those that nobody has read yet.
    ///
    /// # Errors
    /// As [`Interface::bring_up`].
    pub fn set_queue_frames(&self, socket: BorrowedFd<'_>, frames: i32) -> io::Result<()> {
        let mut request = self.named(socket)?;
        // The union's member for it, `ifr_qlen`, is this one by another name.
        request.ifr_ifru.ifru_ifindex = frames;
        ask(socket, libc::SIOCSIFTXQLEN, &mut request)
    }

    /// A request about this interface.
    fn named(&self, socket: BorrowedFd<'_>) -> io::Result<libc::ifreq> {
        let mut request = empty_request();
        request.ifr_ifru.ifru_ifindex = self.index;
        ask(socket, libc::SIOCGIFNAME, &mut request)?;
        Ok(request)
    }
}

/// Whether it is up, and running, by the name in `request`.
fn flags(socket: BorrowedFd<'_>, request: &mut libc::ifreq) -> io::Result<(bool, bool)> {
    ask(socket, libc::SIOCGIFFLAGS, request)?;
    // SAFETY: SIOCGIFFLAGS fills this member of the union.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok((flags & libc::IFF_UP != 0, flags & libc::IFF_RUNNING != 0))
}

/// Lets the kernel catch up with the carrier: it tells of a new one up to a second late, and until then drops
/// what is sent. ETHTOOL_GLINK does that, besides answering.
fn sync_carrier(socket: BorrowedFd<'_>, request: &mut libc::ifreq) -> io::Result<()> {
    let mut link = EthtoolValue { cmd: ETHTOOL_GLINK, data: 0 };
    request.ifr_ifru.ifru_data = (&raw mut link).cast();
    ask(socket, SIOCETHTOOL, request)
}

fn ask(socket: BorrowedFd<'_>, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the requests used here read and write one `ifreq`, whose size is asserted above, and SIOCETHTOOL
    // what it points to, which lives as long as the call.
    let returned = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, request) };
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn empty_request() -> libc::ifreq {
    // SAFETY: `ifreq` is plain numbers, for which zero is valid.
    unsafe { std::mem::zeroed() }
}
