//! `SocketMap`: the map by which a program finds the socket of a queue.

use super::XdpSocket;
use super::bpf::{self, MapUpdate};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

const BPF_MAP_TYPE_XSKMAP: u32 = 17;

/// Sockets by the number of their queue: an XSKMAP. The kernel removes a socket that is closed.
#[derive(Debug)]
pub struct SocketMap {
    pub(super) fd: OwnedFd,
}

impl SocketMap {
    /// Makes an empty map for queues 0 to `queue_max`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` in the first user namespace.
    pub fn new(queue_max: u32) -> io::Result<Self> {
        let entries = queue_max.saturating_add(1);
        // The kind of map, the bytes of a key and of a value, and the number of entries.
        bpf::descriptor(bpf::MAP_CREATE, &mut [BPF_MAP_TYPE_XSKMAP, 4, 4, entries]).map(|fd| Self { fd })
    }

    /// Takes the map that is pinned at `path`, in a BPF file system.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`; `InvalidData` if it is no XSKMAP.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        Self::of(bpf::pinned(path)?)
    }

    /// Takes the map `fd`.
    ///
    /// # Errors
    /// `InvalidData` if it is no XSKMAP.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        // Type, number, bytes of a key and of a value: `struct bpf_map_info`.
        let mut info = [0; 4];
        bpf::read_info(&fd, &mut info)?;
        match info {
            [BPF_MAP_TYPE_XSKMAP, _, 4, 4] => Ok(Self { fd }),
            [other, ..] => {
                let what = format!("a BPF object of type {other} is no map of AF_XDP sockets (XSKMAP)");
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
    }

    /// Pins it at `path`, in a BPF file system: it stays there until that file is removed.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`; `EPERM` where `path` is in another file system.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        bpf::pin(self.fd.as_fd(), path)
    }

    /// Returns its number, by which the system knows it.
    ///
    /// # Errors
    /// Those of `bpf(2)`.
    pub fn id(&self) -> io::Result<u32> {
        let mut info = [0; 2];
        bpf::read_info(&self.fd, &mut info)?;
        Ok(info[1])
    }

    /// Takes the socket of queue `queue` out: its frames are the host's from then on.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn remove(&self, queue: u32) -> io::Result<()> {
        bpf::call(bpf::MAP_DELETE_ELEM, &mut MapUpdate::new(&self.fd, &queue, 0)).map(drop)
    }

    /// Returns its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Directs the frames of queue `queue` to `socket`, which has its rings.
    ///
    /// # Errors
    /// `E2BIG` beyond the queues that the map was made for.
    pub fn direct(&self, queue: u32, socket: &XdpSocket) -> io::Result<()> {
        let socket = socket.fd().as_raw_fd();
        let mut update = MapUpdate::new(&self.fd, &queue, (&raw const socket) as u64);
        bpf::call(bpf::MAP_UPDATE_ELEM, &mut update).map(drop)
    }
}
