//! Programs that hand frames to sockets: loaded and attached by `bpf(2)` (include/uapi/linux/bpf.h).

use super::XdpSocket;
use super::assembler::Instruction;
use super::bpf::{self, MapUpdate, ProgramLoad};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The program accepts frames in several buffers: Linux 5.18.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The place where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before the kernel makes an `sk_buff`.
    Native,
    /// In the kernel's generic path, with any driver.
    Generic,
}

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

    /// Returns the map's descriptor.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Directs the frames of queue `queue` to `socket`, which is bound.
    ///
    /// # Errors
    /// `E2BIG` beyond the queues that the map was made for.
    pub fn direct(&self, queue: u32, socket: &XdpSocket) -> io::Result<()> {
        let socket = socket.fd().as_raw_fd();
        let mut update = MapUpdate {
            map: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const socket) as u64,
            flags: 0,
        };
        bpf::call(bpf::MAP_UPDATE_ELEM, &mut update).map(drop)
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
}

/// The attachment of a program to an interface, which ends when the last owner of it is dropped.
#[derive(Debug)]
pub struct Attached {
    pub(super) _link: OwnedFd,
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN` in the first user namespace; `EINVAL` or `EACCES` for one that the kernel
    /// cannot verify.
    pub fn load(instructions: &[Instruction]) -> io::Result<Self> {
        // Linux before 5.18 refuses the flag.
        load(instructions, BPF_F_XDP_HAS_FRAGS).or_else(|_| load(instructions, 0)).map(|fd| Self { fd })
    }

    /// Attaches the program to interface `index`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the driver cannot; `EBUSY` or `EEXIST` if the interface has such a program.
    pub fn attach(&self, index: i32, hook: Hook) -> io::Result<Attached> {
        let flags = match hook {
            Hook::Native => XDP_FLAGS_DRV_MODE,
            Hook::Generic => XDP_FLAGS_SKB_MODE,
        };
        let (program, interface) = (self.fd.as_raw_fd() as u32, index as u32);
        let link = bpf::descriptor(bpf::LINK_CREATE, &mut [program, interface, BPF_XDP, flags])?;
        Ok(Attached { _link: link })
    }
}

fn load(instructions: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"wharf");
    let mut load = ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        instructions: instructions.len() as u32,
        at: instructions.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name,
        interface: 0,
        expected_attach_type: BPF_XDP,
    };
    bpf::descriptor(bpf::PROG_LOAD, &mut load)
}
