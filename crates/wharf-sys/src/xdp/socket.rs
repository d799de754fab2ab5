//! `XdpSocket`: the socket, its memory and its rings.
//!
//! The order of calls: open, register the memory, make all rings, set the transmit budget, bind.

use super::abi::{
    AF_XDP, Address, Descriptor, Offsets, RingOffsets, SOL_XDP, Statistics, UmemRegistration, XDP_COPY,
    XDP_MAX_TX_SKB_BUDGET, XDP_MMAP_OFFSETS, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_RX_RING,
    XDP_STATISTICS, XDP_TX_RING, XDP_UMEM_COMPLETION_RING, XDP_UMEM_FILL_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XDP_UMEM_REG, XDP_UMEM_UNALIGNED_CHUNK_FLAG,
    XDP_USE_NEED_WAKEUP, XDP_USE_SG, XDP_ZEROCOPY,
};
use super::area::Area;
use super::ring::{Consumer, Entry, Producer, Shared};
use crate::mapping::Mapping;
use crate::option::{check, get, set, set_buffer};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An AF_XDP socket. When it and all its rings are dropped, the kernel frees its queue some time later.
#[derive(Debug)]
pub struct XdpSocket {
    fd: OwnedFd,
}

/// The kernel's division of the memory into buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UmemShape {
    /// Bytes of a buffer, from 2048 to a page; a power of two unless `is_unaligned`.
    pub chunk_bytes: u32,
    /// Bytes left free in front of each received frame, besides [`super::PACKET_HEADROOM_BYTES`].
    pub headroom_bytes: u32,
    /// True if buffers may begin anywhere.
    pub is_unaligned: bool,
}

/// The options of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// True if the adapter accesses the memory itself; otherwise the kernel copies.
    pub zero_copy: bool,
    /// True if packets may be in several buffers (Linux 6.6).
    pub multi_buffer: bool,
}

impl XdpSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `EAFNOSUPPORT` if the kernel has no AF_XDP.
    pub fn open() -> io::Result<Self> {
        // SAFETY: plain numbers; a descriptor that comes back is new and owned by nothing else.
        unsafe {
            let fd = libc::socket(AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(Self { fd: OwnedFd::from_raw_fd(fd) }) }
        }
    }

    /// Returns the socket's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Shares all of `memory`, which must live longer than the socket. The kernel pins its pages.
    ///
    /// # Errors
    /// `ENOBUFS` if `RLIMIT_MEMLOCK` is too low, `EINVAL` for an impossible shape, `EBUSY` if memory was
    /// registered before.
    pub fn register(&self, memory: &Mapping, shape: &UmemShape) -> io::Result<()> {
        let registration = UmemRegistration {
            addr: memory.start().as_ptr() as u64,
            len: memory.len_bytes() as u64,
            chunk_bytes: shape.chunk_bytes,
            headroom_bytes: shape.headroom_bytes,
            flags: if shape.is_unaligned { XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 },
            transmit_metadata_bytes: 0,
        };
        set(self.fd(), SOL_XDP, XDP_UMEM_REG, &registration)
    }

    /// Makes the transmit ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// `EINVAL` for another number, `ENOMEM`.
    pub fn transmit_ring(&self, entries: u32) -> io::Result<Producer<Descriptor>> {
        self.ring(XDP_TX_RING, XDP_PGOFF_TX_RING, entries, |all| all.transmit).map(Producer::new)
    }

    /// Makes the completion ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn completion_ring(&self, entries: u32) -> io::Result<Consumer<u64>> {
        let ring = self
            .ring(XDP_UMEM_COMPLETION_RING, XDP_UMEM_PGOFF_COMPLETION_RING, entries, |all| all.completion);
        ring.map(Consumer::new)
    }

    /// Makes the fill ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn fill_ring(&self, entries: u32) -> io::Result<Producer<u64>> {
        self.ring(XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, entries, |all| all.fill).map(Producer::new)
    }

    /// Makes the receive ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn receive_ring(&self, entries: u32) -> io::Result<Consumer<Descriptor>> {
        self.ring(XDP_RX_RING, XDP_PGOFF_RX_RING, entries, |all| all.receive).map(Consumer::new)
    }

    fn ring<T: Entry>(
        &self, option: libc::c_int, from: u64, entries: u32, which: impl Fn(Offsets) -> RingOffsets,
    ) -> io::Result<Shared<T>> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        set(self.fd(), SOL_XDP, option, &entries)?;
        let mut offsets = Offsets::default();
        // Linux before 5.4 knows no flags, and returns less.
        if get(self.fd(), SOL_XDP, XDP_MMAP_OFFSETS, &mut offsets)? != size_of::<Offsets>() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let offsets = which(offsets);
        let len_bytes = usize::try_from(offsets.entries)
            .ok()
            .and_then(|at| at.checked_add(entries as usize * size_of::<T>()))
            .ok_or_else(invalid)?;
        Shared::new(Area::of_socket(self.fd(), from, len_bytes)?, &offsets, entries)
    }

    /// Lets the kernel take up to `frames` in one call: 32 to the number of entries of the transmit ring,
    /// which was made before. Returns true if the kernel knows that (Linux 6.17); otherwise it takes 32.
    pub fn set_transmit_budget(&self, frames: u32) -> bool {
        set(self.fd(), SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames).is_ok()
    }

    /// Sets the send buffer: bytes of frames, with the kernel's overhead, that may be in the kernel. A
    /// process without `CAP_NET_ADMIN` gets at most the system's bound.
    pub fn set_send_buffer(&self, bytes: usize) {
        set_buffer(self.fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
    }

    /// Binds the socket to queue `queue` of interface `index`.
    ///
    /// # Errors
    /// `EBUSY` if the queue has a socket, or had one a moment ago; `EOPNOTSUPP` if the driver cannot bind
    /// that way; `EINVAL` if there is no such queue; `ENETDOWN`, `ENODEV`.
    pub fn bind(&self, index: i32, queue: u32, how: Bind) -> io::Result<()> {
        let copying = if how.zero_copy { XDP_ZEROCOPY } else { XDP_COPY };
        let gathering = if how.multi_buffer { XDP_USE_SG } else { 0 };
        let address = Address {
            family: AF_XDP as u16,
            flags: XDP_USE_NEED_WAKEUP | copying | gathering,
            interface: index as u32,
            queue,
            shared_umem_fd: 0,
        };
        let len = size_of::<Address>() as libc::socklen_t;
        // SAFETY: an address of that length.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) } as isize).map(drop)
    }

    /// Makes the kernel look at the transmit ring: `sendto(2)` without data or waiting.
    ///
    /// # Errors
    /// `EAGAIN` and `ENOBUFS` if it could not take all now; `EBUSY` if the interface dropped a frame, and
    /// nothing behind it was looked at; `ENETDOWN`; `ENXIO` if the socket is bound no more.
    #[inline]
    pub fn kick(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no data and no address: null is what the kernel expects of this socket.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        check(sent).map(drop)
    }

    /// Makes the adapter look at the fill ring: `recvfrom(2)` without data or waiting.
    ///
    /// # Errors
    /// `ENETDOWN`, `ENXIO`.
    pub fn wake_fill(&self) -> io::Result<()> {
        let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: as in `kick`.
        let received = unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
        check(received).map(drop)
    }

    /// Reads the error counters since the socket was bound.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let mut statistics = Statistics::default();
        get(self.fd(), SOL_XDP, XDP_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }
}
