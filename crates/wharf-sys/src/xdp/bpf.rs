//! `bpf(2)`: its commands and their attributes (include/uapi/linux/bpf.h).

use crate::call::{self, check};
use std::io;
use std::os::fd::OwnedFd;

pub(super) const MAP_CREATE: Command = Command(0);
pub(super) const MAP_UPDATE_ELEM: Command = Command(2);
pub(super) const PROG_LOAD: Command = Command(5);
pub(super) const LINK_CREATE: Command = Command(28);

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

const _: () = assert!(size_of::<MapUpdate>() == 32 && size_of::<ProgramLoad>() == 72);

/// Calls a command that makes a descriptor. Returns the descriptor.
pub(super) fn descriptor<T>(command: Command, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)? as libc::c_int;
    // SAFETY: these commands return a new descriptor.
    unsafe { call::descriptor(fd) }
}

/// Calls a command.
pub(super) fn call<T>(command: Command, attributes: &T) -> io::Result<usize> {
    let (at, len) = ((&raw const *attributes), size_of::<T>() as libc::c_ulong);
    // SAFETY: attributes of that length, which the kernel reads. What they point to lives as long as the
    // call.
    check(unsafe { libc::syscall(libc::SYS_bpf, command.0 as libc::c_long, at, len) })
}
