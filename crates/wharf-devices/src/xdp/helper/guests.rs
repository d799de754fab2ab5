//! `Guests`: connections of a helper that no thread serves: those that last as long as the helper, and those with unread descriptors.
//!
//! The kernel counts descriptors on their way towards the process that has sent them, and refuses more than `RLIMIT_NOFILE` of them
//! (`ETOOMANYREFS`) unless it has CAP_SYS_RESOURCE. A user that reads none would take them from the others.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use wharf_mem::lock;
use wharf_sys::stream::has_ended;
use wharf_sys::unix_socket::peer_unread_bytes;

/// Most connections of a user whose descriptors it has not read: further ones are let go at once.
const UNREAD_MAX: usize = 4;
/// Most connections that last, of all users and of one.
const LASTING_MAX: usize = 512;
const LASTING_OF_ONE_MAX: usize = 128;

/// Connections by their user's number.
type ByUser = Vec<(u32, UnixStream)>;

/// The connections that no thread serves.
#[derive(Debug, Default)]
pub(super) struct Guests {
    lasting: Mutex<ByUser>,
    unread: Mutex<ByUser>,
}

impl Guests {
    /// True if user `uid` may have a further connection: it has read what it was given.
    pub(super) fn admits(&self, uid: u32) -> bool {
        let mut unread = lock(&self.unread);
        unread.retain(|(_, stream)| peer_unread_bytes(stream).is_ok_and(|bytes| bytes > 0));
        count(&unread, uid) < UNREAD_MAX
    }

    /// True if user `uid` may have one more connection that lasts.
    pub(super) fn admits_one_more(&self, uid: u32) -> bool {
        let mut lasting = lock(&self.lasting);
        lasting.retain(|(_, stream)| !has_ended(stream.as_fd()));
        lasting.len() < LASTING_MAX && count(&lasting, uid) < LASTING_OF_ONE_MAX
    }

    /// Keeps a connection for as long as the helper lives.
    pub(super) fn keep(&self, uid: u32, stream: UnixStream) {
        lock(&self.lasting).push((uid, stream));
    }

    /// Keeps a connection that is over while its user has not read all that it was sent.
    pub(super) fn note_unread(&self, uid: u32, stream: UnixStream) {
        if peer_unread_bytes(&stream).is_ok_and(|bytes| bytes > 0) {
            lock(&self.unread).push((uid, stream));
        }
    }
}

fn count(connections: &ByUser, uid: u32) -> usize {
    connections.iter().filter(|(other, _)| *other == uid).count()
}
