//! `bpf(2)`: its commands and their attributes (include/uapi/linux/bpf.h).

use crate::call::{self, check};
use crate::option::Plain;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) const MAP_CREATE: Command = Command(0);
pub(super) const MAP_UPDATE_ELEM: Command = Command(2);
pub(super) const MAP_DELETE_ELEM: Command = Command(3);
pub(super) const PROG_LOAD: Command = Command(5);
pub(super) const OBJ_PIN: Command = Command(6);
pub(super) const OBJ_GET: Command = Command(7);
pub(super) const PROG_GET_FD_BY_ID: Command = Command(13);
pub(super) const MAP_GET_FD_BY_ID: Command = Command(14);
pub(super) const OBJ_GET_INFO_BY_FD: Command = Command(15);
pub(super) const LINK_CREATE: Command = Command(28);
pub(super) const LINK_GET_FD_BY_ID: Command = Command(30);
pub(super) const LINK_GET_NEXT_ID: Command = Command(31);

/// A command of `bpf(2)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command(libc::c_int);

// The first members of `union bpf_attr`, for a command; for others they are words. The kernel takes the rest as 0.

#[repr(C)]
pub(super) struct MapUpdate {
    pub(super) map: u32,
    pub(super) padding: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct ProgramLoad {
    pub(super) program_type: u32,
    pub(super) instructions: u32,
    pub(super) at: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_bytes: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
    pub(super) interface: u32,
    pub(super) expected_attach_type: u32,
}

#[repr(C)]
struct Pin {
    path: u64,
    fd: u32,
    flags: u32,
}

/// The attributes of commands that find an object by its number, or the next number.
#[repr(C)]
pub(super) struct ById {
    pub(super) id: u32,
    pub(super) next_id: u32,
    flags: u32,
}

#[repr(C)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

/// The first members of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProgramInfo {
    kind: u32,
    id: u32,
    /// Hash of the instructions, in which numbers of maps count as 0.
    pub(super) tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time: u64,
    user: u32,
    /// Number of maps; there is room for so many numbers of them at the address that follows.
    pub(super) maps: u32,
    pub(super) map_ids: u64,
    pub(super) name: [u8; 16],
}

/// The first members of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct LinkInfo {
    pub(super) kind: u32,
    id: u32,
    pub(super) program: u32,
    padding: u32,
    /// The index of the interface, if the link attaches a program to one.
    pub(super) interface: u32,
}

const _: () = assert!(size_of::<MapUpdate>() == 32 && size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<ById>() == 12 && size_of::<InfoByFd>() == 16 && size_of::<Pin>() == 16);
const _: () = assert!(size_of::<ProgramInfo>() == 80 && size_of::<LinkInfo>() == 20);

// SAFETY: numbers, in all of these.
unsafe impl Plain for MapUpdate {}
// SAFETY: as above.
unsafe impl Plain for ProgramLoad {}
// SAFETY: as above.
unsafe impl Plain for Pin {}
// SAFETY: as above.
unsafe impl Plain for ById {}
// SAFETY: as above.
unsafe impl Plain for InfoByFd {}
// SAFETY: as above.
unsafe impl Plain for ProgramInfo {}
// SAFETY: as above.
unsafe impl Plain for LinkInfo {}

impl MapUpdate {
    /// Names `value` at the address of `key`, for the time of a call.
    pub(super) fn new(map: &OwnedFd, key: &u32, value: u64) -> Self {
        let (map, key) = (map.as_raw_fd() as u32, (&raw const *key) as u64);
        Self { map, padding: 0, key, value, flags: 0 }
    }
}

impl ById {
    pub(super) fn new(id: u32) -> Self {
        Self { id, next_id: 0, flags: 0 }
    }
}

/// Calls a command that makes a descriptor. Returns the descriptor.
pub(super) fn descriptor<T: Plain>(command: Command, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)? as libc::c_int;
    // SAFETY: these commands return a new descriptor.
    unsafe { call::descriptor(fd) }
}

/// Calls a command. The kernel may write its answer to the attributes.
pub(super) fn call<T: Plain>(command: Command, attributes: &mut T) -> io::Result<usize> {
    let (at, len) = ((&raw mut *attributes), size_of::<T>() as libc::c_ulong);
    // SAFETY: attributes of that length, which the kernel reads and writes; any bits are valid (`Plain`). What they point to
    // lives as long as the call.
    check(unsafe { libc::syscall(libc::SYS_bpf, command.0 as libc::c_long, at, len) })
}

/// Opens the object that is pinned at `path`, in a BPF file system.
///
/// # Errors
/// `ENOENT`, `EACCES`; `EINVAL` if the path is no BPF object.
pub(super) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    descriptor(OBJ_GET, &mut Pin { path: path.as_ptr() as u64, fd: 0, flags: 0 })
}

/// Pins the object `fd` at `path`, in a BPF file system.
///
/// # Errors
/// `EEXIST`, `ENOENT`; `EPERM` where `path` is in another file system.
pub(super) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call(OBJ_PIN, &mut Pin { path: path.as_ptr() as u64, fd: fd.as_raw_fd() as u32, flags: 0 }).map(drop)
}

/// Reads the kernel's description of a program, a map or a link.
pub(super) fn read_info<T: Plain>(of: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut attributes =
        InfoByFd { fd: of.as_raw_fd() as u32, len: size_of::<T>() as u32, info: (&raw mut *info) as u64 };
    call(OBJ_GET_INFO_BY_FD, &mut attributes).map(drop)
}
