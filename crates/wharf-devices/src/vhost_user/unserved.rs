//! `Unserved`: a message that the `vhost` crate does not know, or would end the connection for, although the
//! driver may go on.

use super::session::Session;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use vhost::vhost_user::{Error, VhostUserBackendReqHandlerMut};
use wharf_mem::lock;

/// Bytes of a message's header: request, flags, and the number of bytes that follow.
pub(super) const HEADER_BYTES: usize = 12;
/// Longest message that the `vhost` crate reads.
pub(super) const BODY_BYTES_MAX: usize = 4096;
/// The version of messages, in their flags.
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// A message, read whole.
pub(super) struct Unserved {
    request: u32,
    flags: u32,
    body: Vec<u8>,
}

impl Unserved {
    /// Reads a message that has come in full. The kernel closes descriptors that came with it.
    pub(super) fn read(mut stream: &UnixStream) -> Result<Self, Error> {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).map_err(Error::SocketBroken)?;
        let [request, flags, body_bytes] = [0, 4, 8].map(|at| word(&header, at));
        if body_bytes as usize > BODY_BYTES_MAX || flags & !NEED_REPLY != VERSION {
            return Err(Error::InvalidMessage);
        }
        let mut body = vec![0; body_bytes as usize];
        stream.read_exact(&mut body).map_err(Error::SocketBroken)?;
        Ok(Self { request, flags, body })
    }

    /// Carries out SET_VRING_ENABLE before SET_FEATURES: QEMU's network devices send it first, and DPDK's
    /// driver sends it before all else to a device that has come back. The `vhost` crate wants features
    /// first.
    pub(super) fn enable_early(&self, stream: &UnixStream, session: &Mutex<Session>) -> Result<(), Error> {
        let (index, number) = match self.body.len() {
            8 => (word(&self.body, 0), word(&self.body, 4)),
            _ => return Err(Error::InvalidMessage),
        };
        if number > 1 {
            return Err(Error::InvalidMessage);
        }
        let enabled = lock(session).set_vring_enable(index, number == 1);
        self.answer(stream, session, enabled.is_ok())?;
        enabled
    }

    /// Carries out a request that the `vhost` crate does not know, or declines one that is unknown or was not
    /// agreed upon. The connection goes on.
    pub(super) fn carry_out(&self, stream: &UnixStream, session: &Mutex<Session>) -> Result<(), Error> {
        let word = self.body.first_chunk().filter(|_| self.body.len() == size_of::<u64>());
        let done = lock(session).request(self.request, word.map_or(0, |word| u64::from_ne_bytes(*word)));
        match done {
            Ok(Some(word)) => self.reply(stream, word),
            done => self.answer(stream, session, done.is_ok()),
        }
    }

    /// Answers if the driver asks for it, and answers were agreed upon: 0 stands for success.
    fn answer(&self, stream: &UnixStream, session: &Mutex<Session>, is_done: bool) -> Result<(), Error> {
        if self.flags & NEED_REPLY == 0 || !lock(session).acknowledges() {
            return Ok(());
        }
        self.reply(stream, u64::from(!is_done))
    }

    fn reply(&self, mut stream: &UnixStream, word: u64) -> Result<(), Error> {
        let head = [self.request, VERSION | REPLY, size_of::<u64>() as u32].map(u32::to_ne_bytes).concat();
        let reply = [&head[..], &word.to_ne_bytes()].concat();
        stream.write_all(&reply).map_err(Error::SocketBroken)
    }
}

/// Returns the word at byte `at`; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}
