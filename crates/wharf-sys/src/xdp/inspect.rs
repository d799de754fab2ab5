//! Questions about XDP programs that are loaded: their names, and the links by which they are attached.
//!
//! Layouts and numbers: include/uapi/linux/bpf.h. The kernel answers processes with `CAP_SYS_ADMIN`.

use crate::call::{self, check};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_int = 31;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// Words of `union bpf_attr` for these commands.
const ATTRIBUTE_WORDS: usize = 4;
/// Bytes of the first members of `struct bpf_prog_info`, up to the name, and of the name.
const NAME_AT: usize = 64;
const NAME_BYTES: usize = 16;
const INFO_BYTES: usize = NAME_AT + NAME_BYTES;
/// In `struct bpf_link_info`: the program, and the interface of a link of an XDP program.
const LINK_PROGRAM_AT: usize = 8;
const LINK_INTERFACE_AT: usize = 16;

/// Returns the name of program `id`, empty if it has none.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOENT` if it is gone.
pub fn program_name(id: u32) -> io::Result<String> {
    let info = info(&opened(BPF_PROG_GET_FD_BY_ID, id)?)?;
    let name = &info[NAME_AT..];
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Returns the number of the link by which program `program` is attached to interface `index`; `None` if it is attached without one.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn link_of(index: i32, program: u32) -> io::Result<Option<u32>> {
    let mut id = 0;
    loop {
        let mut attributes = [id, 0, 0, 0];
        match bpf(BPF_LINK_GET_NEXT_ID, &mut attributes) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            asked => asked?,
        };
        id = attributes[1];
        // A link may go between the two calls.
        let Ok(info) = opened(BPF_LINK_GET_FD_BY_ID, id).and_then(|link| self::info(&link)) else { continue };
        let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let is_on_it = word(LINK_PROGRAM_AT) == program && word(LINK_INTERFACE_AT) == index as u32;
        if word(0) == BPF_LINK_TYPE_XDP && is_on_it {
            return Ok(Some(id));
        }
    }
}

fn opened(command: libc::c_int, id: u32) -> io::Result<OwnedFd> {
    let fd = bpf(command, &mut [id, 0, 0, 0])?;
    // SAFETY: both commands return a new descriptor.
    unsafe { call::descriptor(fd as libc::c_int) }
}

/// Returns the first bytes of the description of a program or link.
fn info(of: &OwnedFd) -> io::Result<[u8; INFO_BYTES]> {
    let mut info = [0; INFO_BYTES];
    let at = (info.as_mut_ptr() as u64).to_ne_bytes();
    let half = |from: usize| u32::from_ne_bytes([at[from], at[from + 1], at[from + 2], at[from + 3]]);
    // The kernel writes as many bytes as the second word says, at most.
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut [of.as_raw_fd() as u32, INFO_BYTES as u32, half(0), half(4)])?;
    Ok(info)
}

fn bpf(command: libc::c_int, attributes: &mut [u32; ATTRIBUTE_WORDS]) -> io::Result<usize> {
    let (at, len) = (attributes.as_mut_ptr(), size_of_val(attributes) as libc::c_ulong);
    // SAFETY: attributes of that length, which the kernel reads and writes. What they point to lives through the call: a buffer of
    // the length that stands beside its address.
    check(unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, at, len) })
}
