//! `XdpSocket`: the socket, its memory and its rings.
//!
//! The order of calls: open, register the memory, make all rings, set the transmit budget, bind.

use super::abi::{Descriptor, Statistics, XDP_MAX_TX_SKB_BUDGET};
use super::metadata::{TX_METADATA_BYTES, TxMetadataRoom};
use super::ring::{Consumer, Entry, Producer, Shared};
use super::umem::Umem;
use crate::call::{self, Pages, check};
use crate::mapping::Mapping;
use crate::option::{get, set, set_buffer};
use libc::{SOL_XDP, off_t, xdp_mmap_offsets, xdp_ring_offset};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// An AF_XDP socket. When it and all its rings are dropped, the kernel frees its queue some time later.
#[derive(Debug)]
pub struct XdpSocket {
    fd: OwnedFd,
}

/// Polling of an adapter by the calls of this socket, in place of its interrupts (`SO_PREFER_BUSY_POLL`, Linux 5.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyPoll {
    /// Longest time of one call, in microseconds (`SO_BUSY_POLL`).
    pub time_us: u32,
    /// Most frames of one call (`SO_BUSY_POLL_BUDGET`).
    pub budget_frames: u16,
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
    /// The room for metadata in front of frames that are sent, if there is any.
    pub metadata: Option<TxMetadataRoom>,
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
        call::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map(|fd| Self { fd })
    }

    /// Takes the socket `fd`, which another process has opened.
    ///
    /// # Errors
    /// `InvalidData` if it is no AF_XDP socket.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        let mut domain: libc::c_int = 0;
        get(fd.as_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN, &mut domain)?;
        if domain != libc::AF_XDP {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no AF_XDP socket"));
        }
        Ok(Self { fd })
    }

    /// Returns the socket's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Shares all of `memory`. The kernel pins its pages until the socket is closed.
    ///
    /// # Errors
    /// `ENOBUFS` if `RLIMIT_MEMLOCK` is too low, `EINVAL` for an impossible shape, or metadata that the kernel does not know, `EBUSY` if
    /// memory was registered before.
    pub fn register(&self, memory: &Mapping, shape: &UmemShape) -> io::Result<()> {
        self.register_bytes(memory.start(), memory.len_bytes(), shape)
    }

    /// Does as [`XdpSocket::register`] with a region and the memory behind it.
    ///
    /// # Errors
    /// Those of [`XdpSocket::register`].
    pub fn register_umem(&self, memory: &Umem, shape: &UmemShape) -> io::Result<()> {
        self.register_bytes(memory.start(), memory.len_bytes(), shape)
    }

    fn register_bytes(&self, start: NonNull<u8>, len_bytes: usize, shape: &UmemShape) -> io::Result<()> {
        let unaligned = if shape.is_unaligned { libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 };
        let registration = libc::xdp_umem_reg {
            addr: start.as_ptr() as u64,
            len: len_bytes as u64,
            chunk_size: shape.chunk_bytes,
            headroom: shape.headroom_bytes,
            flags: unaligned | shape.metadata.map_or(0, TxMetadataRoom::umem_flags),
            tx_metadata_len: shape.metadata.map_or(0, |_| TX_METADATA_BYTES as u32),
        };
        set(self.fd(), SOL_XDP, libc::XDP_UMEM_REG, &registration)
    }

    /// Makes the transmit ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// `EINVAL` for another number, `ENOMEM`.
    pub fn transmit_ring(&self, entries: u32) -> io::Result<Producer<Descriptor>> {
        self.ring(libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING, entries, |all| all.tx).map(Producer::new)
    }

    /// Makes the completion ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn completion_ring(&self, entries: u32) -> io::Result<Consumer<u64>> {
        let from = libc::XDP_UMEM_PGOFF_COMPLETION_RING as off_t;
        self.ring(libc::XDP_UMEM_COMPLETION_RING, from, entries, |all| all.cr).map(Consumer::new)
    }

    /// Makes the fill ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn fill_ring(&self, entries: u32) -> io::Result<Producer<u64>> {
        let from = libc::XDP_UMEM_PGOFF_FILL_RING as off_t;
        self.ring(libc::XDP_UMEM_FILL_RING, from, entries, |all| all.fr).map(Producer::new)
    }

    /// Makes the receive ring, of `entries`, a power of two.
    ///
    /// # Errors
    /// Those of [`XdpSocket::transmit_ring`].
    pub fn receive_ring(&self, entries: u32) -> io::Result<Consumer<Descriptor>> {
        self.ring(libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING, entries, |all| all.rx).map(Consumer::new)
    }

    fn ring<T: Entry>(
        &self, option: libc::c_int, from: off_t, entries: u32,
        which: impl Fn(xdp_mmap_offsets) -> xdp_ring_offset,
    ) -> io::Result<Shared<T>> {
        set(self.fd(), SOL_XDP, option, &entries)?;
        // SAFETY: plain numbers, for which zero is valid.
        let mut offsets: xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        // Linux before 5.4 knows no flags, and returns less.
        if get(self.fd(), SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)? != size_of::<xdp_mmap_offsets>() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let offsets = which(offsets);
        let len_bytes = usize::try_from(offsets.desc)
            .ok()
            .and_then(|at| at.checked_add(entries as usize * size_of::<T>()))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Shared::new(Pages::map(Some(self.fd()), from, len_bytes, flags)?, &offsets, entries)
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

    /// Makes [`XdpSocket::wake_fill`] and [`XdpSocket::kick`] poll the queue's NAPI context, which then leaves the queue's interrupts
    /// off for as long as the interface's `gro_flush_timeout` says.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`; `ENOPROTOOPT` before Linux 5.11.
    pub fn set_busy_poll(&self, how: BusyPoll) -> io::Result<()> {
        let (on, time, budget) = (1, how.time_us as libc::c_int, libc::c_int::from(how.budget_frames));
        for (option, value) in
            [(libc::SO_PREFER_BUSY_POLL, on), (libc::SO_BUSY_POLL, time), (libc::SO_BUSY_POLL_BUDGET, budget)]
        {
            set(self.fd(), libc::SOL_SOCKET, option, &value)?;
        }
        Ok(())
    }

    /// Binds the socket to queue `queue` of interface `index`.
    ///
    /// # Errors
    /// `EBUSY` if the queue has a socket, or had one a moment ago; `EOPNOTSUPP` if the driver cannot bind
    /// that way; `EINVAL` if there is no such queue; `ENETDOWN`, `ENODEV`.
    pub fn bind(&self, index: i32, queue: u32, how: Bind) -> io::Result<()> {
        let copying = if how.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let gathering = if how.multi_buffer { libc::XDP_USE_SG } else { 0 };
        self.bind_by(index, queue, libc::XDP_USE_NEED_WAKEUP | copying | gathering, 0)
    }

    /// Binds the socket, which has no memory of its own, to queue `queue` of interface `index`, with the memory of `owner`, and
    /// in the way that `owner` was bound (`XDP_SHARED_UMEM`). It has a fill and a completion ring of its own.
    ///
    /// # Errors
    /// Those of [`XdpSocket::bind`]; `EBADF` if `owner` is not bound.
    pub fn bind_sharing(&self, index: i32, queue: u32, owner: &XdpSocket) -> io::Result<()> {
        self.bind_by(index, queue, libc::XDP_SHARED_UMEM, owner.fd.as_raw_fd() as u32)
    }

    fn bind_by(&self, index: i32, queue: u32, flags: u16, shared_with: u32) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index as u32,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared_with,
        };
        call::bind(self.fd(), &address)
    }

    /// Makes the kernel look at the transmit ring: `sendto(2)` without data or waiting.
    ///
    /// # Errors
    /// `EAGAIN` and `ENOBUFS` if it could not take all now; `EBUSY` if the interface dropped a frame, and
    /// nothing behind it was looked at; `ENETDOWN`; `ENXIO` if the socket is bound no more.
    #[inline]
    pub fn kick(&self) -> io::Result<()> {
        call::kick(self.fd())
    }

    /// Makes the driver look at the transmit ring of a socket that busy-polls: `poll(2)` without waiting. For such a socket
    /// [`XdpSocket::kick`] polls the NAPI context that receives, and wakes no other (`xsk_no_wakeup`): a driver that sends by another one, as
    /// `virtio_net` and `igb` with one queue do, would send nothing.
    pub fn wake_transmit(&self) {
        let _ = call::has(self.fd(), rustix::event::PollFlags::OUT);
    }

    /// Makes the adapter look at the fill ring: `recvfrom(2)` without data or waiting.
    ///
    /// # Errors
    /// `ENETDOWN`, `ENXIO`.
    pub fn wake_fill(&self) -> io::Result<()> {
        let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: no data and no address: null is what the kernel expects of this socket.
        let received = unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
        check(received).map(drop)
    }

    /// Reads the error counters since the socket was bound.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn statistics(&self) -> io::Result<Statistics> {
        // SAFETY: plain numbers, for which zero is valid.
        let mut all: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get(self.fd(), SOL_XDP, libc::XDP_STATISTICS, &mut all)?;
        Ok(Statistics { received_dropped: all.rx_dropped, receive_ring_full: all.rx_ring_full })
    }
}
