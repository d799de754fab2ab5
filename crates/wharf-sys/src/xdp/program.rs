//! Programs that hand frames to sockets: loaded and attached by `bpf(2)` (include/uapi/linux/bpf.h).

use super::assembler::Instruction;
use super::bpf::{self, ProgramLoad};
use crate::option::set;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
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
        let load = |flags| load((BPF_PROG_TYPE_XDP, BPF_XDP), instructions, flags);
        load(BPF_F_XDP_HAS_FRAGS).or_else(|_| load(0)).map(|fd| Self { fd })
    }

    /// Takes the program that is pinned at `path`, in a BPF file system.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`; `EINVAL` if the path is no BPF object; `InvalidData` if it is no XDP program.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        Self::of(bpf::pinned(path)?)
    }

    /// Takes the program `fd`.
    ///
    /// # Errors
    /// `InvalidData` if it is no XDP program.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        let mut kind = [0];
        bpf::read_info(&fd, &mut kind)?;
        match kind {
            [BPF_PROG_TYPE_XDP] => Ok(Self { fd }),
            [other] => {
                let what = format!("a BPF object of type {other} is no XDP program");
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
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

/// Loads a filter of a socket, or of a TAP interface: its verdict is the bytes of a packet that pass.
///
/// # Errors
/// `EPERM` without `CAP_BPF`; `EINVAL` or `EACCES` for one that the kernel cannot verify.
pub fn load_filter(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    load((BPF_PROG_TYPE_SOCKET_FILTER, 0), instructions, 0)
}

/// Has `filter` choose what arrives at `socket`, or takes all.
///
/// # Errors
/// `EPERM` if the socket's filter is locked, `ENOENT` if there is none to remove.
pub fn set_filter(socket: BorrowedFd<'_>, filter: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let (option, value) = match filter {
        Some(filter) => (libc::SO_ATTACH_BPF, filter.as_raw_fd()),
        None => (libc::SO_DETACH_FILTER, 0),
    };
    set(socket, libc::SOL_SOCKET, option, &value)
}

fn load(
    (program_type, expected_attach_type): (u32, u32), instructions: &[Instruction], flags: u32,
) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"wharf");
    let mut load = ProgramLoad {
        program_type,
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
        expected_attach_type,
    };
    bpf::descriptor(bpf::PROG_LOAD, &mut load)
}
