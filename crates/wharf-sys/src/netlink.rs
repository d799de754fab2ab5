//! Questions to `rtnetlink(7)`: the number of frames that an interface has dropped on transmit, its kind, relations and XDP program,
//! whether the neighbour on the way to an address answers, and the default routes.

mod dump;
mod link;
mod napi;
mod neighbour;
mod netdev;
mod qdisc;
mod request;
mod routes;

pub use link::{AttachMode, AttachedProgram, LinkInfo};
pub use napi::{Deferral, Napi};
pub use netdev::{XdpFeatures, xdp_features};
pub use qdisc::RootQdisc;

use crate::call::{check, socket};
use crate::interface::Interface;
use request::Request;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

// linux/if_link.h; not in libc 0.2.
const RTM_GETSTATS: u16 = 94;
const RTM_NEWSTATS: u16 = 92;
const IFLA_STATS_LINK_64: u16 = 1;
/// Index of `tx_dropped` in `struct rtnl_link_stats64`.
const TX_DROPPED: usize = 7;

/// More than an answer has.
const ANSWER_BYTES: usize = 1024;

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
/// Bytes of the header, and of `struct ifinfomsg` behind it.
const LINK_MESSAGE_BYTES: usize = HEADER_BYTES + 16;
/// Room for the answer about a link, which has the state of every protocol in it.
const LINK_ANSWER_BYTES: usize = 16384;
/// Bytes of the header, and of `struct if_stats_msg` behind it.
const MESSAGE_BYTES: usize = HEADER_BYTES + 12;

/// A socket for questions about the interfaces of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens a socket.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: out of descriptors.
    pub fn open() -> io::Result<Self> {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(Self)
    }

    /// Returns the number of frames that an interface has dropped on transmit since it was made: of a TAP,
    /// those that came faster than they were read.
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone.
    pub fn transmit_drops(&self, interface: &Interface) -> io::Result<u64> {
        let wanted = 1u32 << (IFLA_STATS_LINK_64 - 1);
        let body = [[0; 4], interface.index.to_ne_bytes(), wanted.to_ne_bytes()].concat();
        let mut answer = [0; ANSWER_BYTES];
        let count = self.ask(Request::new(RTM_GETSTATS, 0, &body), &mut answer)?;
        dropped(&answer[..count])
    }

    /// Returns the index of the interface that `interface` is linked to in the same network namespace: of one end of a veth pair, the
    /// other. `None` if it has no link, or in another namespace.
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone.
    pub fn link_of(&self, interface: &Interface) -> io::Result<Option<i32>> {
        self.describe(interface.index).map(|info| info.lower)
    }

    /// Returns the description of the interface `index`: kind, interfaces below and above it, queues, XDP program.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface.
    pub fn describe(&self, index: i32) -> io::Result<LinkInfo> {
        let body = [[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat();
        let mut answer = vec![0; LINK_ANSWER_BYTES];
        let count = self.ask(Request::new(libc::RTM_GETLINK, 0, &body), &mut answer)?;
        link::read(&answer[..count])
    }

    /// Sends a question. Returns the number of bytes of the answer.
    fn ask(&self, question: Request, answer: &mut [u8]) -> io::Result<usize> {
        let (fd, question) = (self.0.as_raw_fd(), question.bytes());
        // SAFETY: that many bytes, which the kernel reads.
        check(unsafe { libc::send(fd, question.as_ptr().cast(), question.len(), 0) })?;
        self.receive(answer)
    }

    /// Receives an answer, or the next part of a dump: the kernel has it ready. Returns its bytes.
    fn receive(&self, answer: &mut [u8]) -> io::Result<usize> {
        let (fd, room) = (self.0.as_raw_fd(), answer.len());
        // SAFETY: room for that many bytes.
        check(unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), room, libc::MSG_DONTWAIT) })
    }
}

fn strange() -> io::Error {
    io::Error::other("rtnetlink's answer is none")
}

fn word(answer: &[u8], at: usize) -> Option<[u8; 4]> {
    answer.get(at..)?.first_chunk().copied()
}

/// Returns the error that a message of kind `NLMSG_ERROR` or `NLMSG_DONE` has, if it has one.
fn error_of(message: &[u8]) -> Option<io::Error> {
    let errno = i32::from_ne_bytes(word(message, HEADER_BYTES)?);
    (errno < 0).then(|| io::Error::from_raw_os_error(errno.wrapping_neg()))
}

/// Returns the attributes behind the `from` bytes of headers of an answer of kind `wanted`, by number.
fn attributes(answer: &[u8], wanted: u16, from: usize) -> io::Result<impl Iterator<Item = (u16, &[u8])>> {
    let kind = half(answer, 4).ok_or_else(strange)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        return Err(error_of(answer).unwrap_or_else(strange));
    }
    if kind != wanted {
        return Err(strange());
    }
    Ok(nested(answer.get(from..).unwrap_or_default()))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the attributes in `value`, by number (`struct nlattr`).
fn nested(value: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    // The upper two bits are flags: `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`.
    const NUMBER: u16 = 0x3fff;
    let mut at = 0;
    std::iter::from_fn(move || {
        let (bytes, attribute) = (usize::from(half(value, at)?.max(4)), half(value, at + 2)? & NUMBER);
        let inner = value.get(at + 4..at + bytes)?;
        at += bytes.next_multiple_of(4);
        Some((attribute, inner))
    })
}

/// Reads the number of drops from an answer.
fn dropped(answer: &[u8]) -> io::Result<u64> {
    let mut attributes = attributes(answer, RTM_NEWSTATS, MESSAGE_BYTES)?;
    let numbers = attributes.find(|(attribute, _)| *attribute == IFLA_STATS_LINK_64);
    let number = numbers.and_then(|(_, numbers)| numbers.get(8 * TX_DROPPED..)?.first_chunk());
    number.map(|number| u64::from_ne_bytes(*number)).ok_or_else(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_answer_is_an_error_or_a_number() {
        let mut answer = vec![0u8; 16 + 12 + 4 + 8 * 25];
        answer[4] = RTM_NEWSTATS as u8;
        answer[28..32].copy_from_slice(&[204, 0, 1, 0]);
        answer[32 + 56] = 9;
        assert_eq!(dropped(&answer).unwrap(), 9);
        for len in 0..answer.len() {
            let _ = dropped(&answer[..len]);
        }
        assert!(dropped(&answer[..90]).is_err() && dropped(&[]).is_err());
        // Attributes of no length do not loop for ever.
        answer[28..32].fill(0);
        assert!(dropped(&answer).is_err());
    }
}
