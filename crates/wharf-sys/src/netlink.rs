//! Questions to `rtnetlink(7)`: the number of frames that an interface has dropped on transmit, and whether the
//! neighbour on the way to an address answers.

mod neighbour;

use crate::call::{check, socket};
use crate::interface::Interface;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

// linux/if_link.h; not in libc 0.2.
const RTM_GETSTATS: u16 = 94;
const RTM_NEWSTATS: u16 = 92;
const IFLA_STATS_LINK_64: u16 = 1;
/// Index of `tx_dropped` in `struct rtnl_link_stats64`.
const TX_DROPPED: usize = 7;

/// `struct if_stats_msg`, with the message's header.
#[repr(C)]
struct StatsMessage {
    header: libc::nlmsghdr,
    family: u8,
    pad: [u8; 3],
    ifindex: u32,
    filter_mask: u32,
}

/// More than an answer has.
const ANSWER_BYTES: usize = 1024;
const MESSAGE_BYTES: usize = size_of::<StatsMessage>();
const _: () = assert!(MESSAGE_BYTES == 28);

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
        // SAFETY: plain numbers, for which zero is valid.
        let mut question: StatsMessage = unsafe { std::mem::zeroed() };
        question.header.nlmsg_len = MESSAGE_BYTES as u32;
        question.header.nlmsg_type = RTM_GETSTATS;
        question.header.nlmsg_flags = libc::NLM_F_REQUEST as u16;
        question.ifindex = interface.index as u32;
        question.filter_mask = 1 << (IFLA_STATS_LINK_64 - 1);
        // SAFETY: a message of that many bytes, plain numbers without padding.
        let question = unsafe { std::slice::from_raw_parts((&raw const question).cast(), MESSAGE_BYTES) };
        let mut answer = [0; ANSWER_BYTES];
        let count = self.ask(question, &mut answer)?;
        dropped(&answer[..count])
    }

    /// Sends a question. Returns the number of bytes of the answer.
    fn ask(&self, question: &[u8], answer: &mut [u8; ANSWER_BYTES]) -> io::Result<usize> {
        let fd = self.0.as_raw_fd();
        // SAFETY: that many bytes, which the kernel reads.
        check(unsafe { libc::send(fd, question.as_ptr().cast(), question.len(), 0) })?;
        // SAFETY: room for that many bytes. The kernel has answered before `send` returned.
        check(unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) })
    }
}

/// Reads the number from an answer: header, message, attributes.
fn dropped(answer: &[u8]) -> io::Result<u64> {
    const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
    const NUMBERS_AT: usize = 4;
    let strange = || io::Error::other("rtnetlink's answer is none");
    let word = |at: usize| answer.get(at..at + 4).map(|bytes| [bytes[0], bytes[1], bytes[2], bytes[3]]);
    let half = |at: usize| answer.get(at..at + 2).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let kind = half(4).ok_or_else(strange)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = i32::from_ne_bytes(word(HEADER_BYTES).ok_or_else(strange)?);
        return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
    }
    let mut at = MESSAGE_BYTES;
    while let (RTM_NEWSTATS, Some(bytes), Some(attribute)) = (kind, half(at), half(at + 2)) {
        if attribute == IFLA_STATS_LINK_64 {
            let from = at + NUMBERS_AT + 8 * TX_DROPPED;
            let number = answer.get(from..).and_then(|rest| rest.first_chunk()).ok_or_else(strange)?;
            return Ok(u64::from_ne_bytes(*number));
        }
        at += usize::from(bytes.max(4)).next_multiple_of(4);
    }
    Err(strange())
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
