//! Bytes of a stream socket, before they are read.

use crate::call::has;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

/// The most descriptors that may come with one message.
pub const DESCRIPTORS_MAX: usize = 32;

/// Copies unread bytes to the front of `to`, and leaves them unread (`MSG_PEEK`). Returns their number: 0 if
/// the other end has closed, `None` if there are none yet. The bytes end where descriptors came with them.
///
/// # Errors
/// `InvalidData` if more than [`DESCRIPTORS_MAX`] descriptors came; `EMFILE` if this process may have no more
/// descriptors; those of `recvmsg(2)`.
pub fn peek(socket: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Option<usize>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = match recvmsg(socket, &mut [IoSliceMut::new(to)], &mut control, flags) {
        Err(Errno::AGAIN) => return Ok(None),
        message => message?,
    };
    // Closes the descriptors that came: a later read gets others.
    let came: usize = control.drain().map(count).sum();
    let is_cut = message.flags.contains(ReturnFlags::CTRUNC);
    if came > DESCRIPTORS_MAX || is_cut && came == DESCRIPTORS_MAX {
        let what = format!("more than {DESCRIPTORS_MAX} descriptors with one message");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    // The message has room for more: it is this process that may have no more.
    if is_cut { Err(Errno::MFILE.into()) } else { Ok(Some(message.bytes)) }
}

/// Returns the number of descriptors of a control message.
fn count(message: RecvAncillaryMessage<'_>) -> usize {
    if let RecvAncillaryMessage::ScmRights(descriptors) = message { descriptors.count() } else { 0 }
}

/// Returns the number of unread bytes (`FIONREAD`).
///
/// # Errors
/// Those of `ioctl(2)`.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(rustix::io::ioctl_fionread(socket)? as usize)
}

/// True if the other end will send nothing more: all that is left is what came before.
pub fn has_ended(socket: BorrowedFd<'_>) -> bool {
    has(socket, PollFlags::RDHUP) == Ok(true)
}
