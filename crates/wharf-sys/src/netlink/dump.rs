//! Dumps: all objects of a kind that the kernel has.

use super::{HEADER_BYTES, Netlink, Request, error_of, half, strange, word};
use std::io;

/// Offset of `nlmsg_flags` in the header.
pub(super) const FLAGS_AT: usize = 6;
/// More than the kernel sends at once of a dump.
const DUMP_BYTES: usize = 65536;

/// Shows each object that the kernel has of `kind`, with `body` behind the header of the question, to `see`. It takes a
/// socket of its own: after an error the rest of a dump would come as the answer to the next question.
///
/// # Errors
/// The kernel's; `EINTR` if objects have changed meanwhile (`NLM_F_DUMP_INTR`).
pub(super) fn dump(kind: u16, body: &[u8], see: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let (netlink, mut part) = (Netlink::open()?, vec![0; DUMP_BYTES]);
    let mut bytes = netlink.ask(Request::new(kind, libc::NLM_F_DUMP, body), &mut part)?;
    while !read_part(&part[..bytes], see)? {
        bytes = netlink.receive(&mut part)?;
    }
    Ok(())
}

/// Shows the objects in one part of a dump. Returns true at its end, which may lie behind objects; an error if
/// they have changed meanwhile, or if the kernel could not go on.
pub(super) fn read_part(mut part: &[u8], see: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    while !part.is_empty() {
        let bytes = u32::from_ne_bytes(word(part, 0).ok_or_else(strange)?) as usize;
        let message = part.get(..bytes.max(HEADER_BYTES)).ok_or_else(strange)?;
        if half(message, FLAGS_AT).is_some_and(|flags| flags & libc::NLM_F_DUMP_INTR as u16 != 0) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match i32::from(half(message, 4).ok_or_else(strange)?) {
            libc::NLMSG_DONE => return error_of(message).map_or(Ok(true), Err),
            libc::NLMSG_ERROR => return Err(error_of(message).unwrap_or_else(strange)),
            _ => see(message),
        }
        part = part.get(message.len().next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}
