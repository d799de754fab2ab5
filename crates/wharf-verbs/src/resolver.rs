//! `Resolver`: asks a peer for the number of its queue pair, and answers such questions.
//!
//! IPoIB learns this number from answers of the address resolution protocol, which it sends to a multicast group. Membership of such a
//! group is a matter of the subnet manager, which verbs do not reach. On RoCE a GID is an IP address of the port's interface: so a
//! question and its answer are UDP datagrams between the two addresses, from and to [`PORT`].

use super::address::{gid_of, ip_of, is_queue_pair};
use crate::ibverbs::Gid;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

/// UDP port of ends that receive.
pub const PORT: u16 = 24791;
/// First bytes of a message.
const MAGIC: [u8; 8] = *b"wharf-qp";
/// Bytes of a message: [`MAGIC`], the kind, three zeros, the number of the sender's queue pair, or 0 if that does not receive, and 8 bytes
/// by which an answer names its question.
const MESSAGE_BYTES: usize = 24;
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
/// Messages that are read in one call.
const READ_MAX: usize = 16;

/// A message that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    is_question: bool,
    /// The sender's queue pair, if it receives.
    queue_pair: Option<u32>,
    /// Number that a question chooses and its answer repeats: a machine that does not see the question cannot answer it.
    nonce: u64,
}

impl Message {
    fn bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = if self.is_question { QUESTION } else { ANSWER };
        bytes[12..16].copy_from_slice(&self.queue_pair.unwrap_or(0).to_be_bytes());
        bytes[16..].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let is_question = match bytes[8] {
            QUESTION => true,
            ANSWER => false,
            _ => return None,
        };
        let number = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let is_sound =
            bytes[..8] == MAGIC && bytes[9..12] == [0; 3] && (number == 0 || is_queue_pair(number));
        let nonce = bytes.last_chunk().map_or(0, |nonce| u64::from_be_bytes(*nonce));
        let queue_pair = is_queue_pair(number).then_some(number);
        is_sound.then_some(Self { is_question, queue_pair, nonce })
    }
}

/// A queue pair that a message has named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// That of the peer that was asked.
    Answer(u32),
    /// That of the port with this GID, which was asked after a question in its name.
    Proven(Gid, u32),
    /// That of the port with this GID, which asks. Anyone may write so.
    Question(Gid, u32),
}

/// A socket for questions and answers at the address of one GID.
#[derive(Debug)]
pub(super) struct Resolver {
    socket: UdpSocket,
    /// Number of the interface, which link-local addresses want.
    interface: u32,
    /// The port that was asked, and the question's number, until the answer has come. A repeated question keeps its number.
    asked: Option<(Gid, u64)>,
    /// Source of numbers of questions: a keyed hash of their count.
    keys: RandomState,
    questions: u64,
}

impl Resolver {
    /// Opens a socket at the address of `gid`, of interface number `interface`: at [`PORT`] if it `answers`, else at any port.
    ///
    /// # Errors
    /// `EADDRINUSE` if another one answers there, `EADDRNOTAVAIL` if the address is not this namespace's.
    pub(super) fn open(gid: &Gid, interface: u32, answers: bool) -> io::Result<Self> {
        let socket = UdpSocket::bind(socket_address(gid, interface, if answers { PORT } else { 0 }))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, interface, asked: None, keys: RandomState::new(), questions: 0 })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Asks the port with `gid` for its queue pair, and names `own`, which receives, or none. A question that cannot be sent is asked
    /// again like one that was lost.
    pub(super) fn ask(&mut self, gid: &Gid, own: Option<u32>) {
        let nonce = match self.asked {
            Some((asked, nonce)) if asked == *gid => nonce,
            _ => self.keys.hash_one(self.questions),
        };
        self.questions += 1;
        self.asked = Some((*gid, nonce));
        self.send_question(gid, own, nonce);
    }

    /// Returns the number of a question to the port with `gid` whether another question was its own. None of
    /// these is noted, so that strangers who ask in the names of many have no answer lost.
    fn check_nonce(&self, gid: &Gid) -> u64 {
        self.keys.hash_one(gid)
    }

    fn send_question(&self, gid: &Gid, own: Option<u32>, nonce: u64) {
        let question = Message { is_question: true, queue_pair: own, nonce };
        let _ = self.socket.send_to(&question.bytes(), socket_address(gid, self.interface, PORT));
    }

    /// Reads what has come, without waiting: answers questions with `own`, if that receives, and shows each queue pair that was named to
    /// `see`, which returns true to have that port asked. Returns false if more may be there.
    pub(super) fn serve(&mut self, own: Option<u32>, mut see: impl FnMut(Heard) -> bool) -> bool {
        let mut bytes = [0; MESSAGE_BYTES + 1];
        for _ in 0..READ_MAX {
            let (len, from) = match self.socket.recv_from(&mut bytes) {
                Ok(read) => read,
                // No socket was open at an address that was asked.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return true,
            };
            let Some(message) = Message::parse(&bytes[..len]) else { continue };
            if message.is_question && own.is_some() {
                let answer = Message { is_question: false, queue_pair: own, nonce: message.nonce };
                let _ = self.socket.send_to(&answer.bytes(), from);
            }
            if self.heard(&message, from).is_some_and(&mut see) {
                let gid = gid_of(from.ip());
                self.send_question(&gid, own, self.check_nonce(&gid));
            }
        }
        false
    }

    /// Returns the queue pair that `message` from `from` has named. An answer counts if it comes from the port that was asked, and names
    /// the question.
    fn heard(&mut self, message: &Message, from: SocketAddr) -> Option<Heard> {
        let (queue_pair, gid) = (message.queue_pair?, gid_of(from.ip()));
        if message.is_question {
            return Some(Heard::Question(gid, queue_pair));
        }
        if from.port() != PORT {
            return None;
        }
        if self.asked.take_if(|asked| *asked == (gid, message.nonce)).is_some() {
            return Some(Heard::Answer(queue_pair));
        }
        (message.nonce == self.check_nonce(&gid)).then_some(Heard::Proven(gid, queue_pair))
    }
}

fn socket_address(gid: &Gid, interface: u32, port: u16) -> SocketAddr {
    match ip_of(gid) {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, port, 0, interface).into()
        }
        address => (address, port).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_read_as_it_was_written_and_another_is_none() {
        for (is_question, queue_pair) in [(true, None), (false, Some(17)), (true, Some(0xff_fffe))] {
            let message = Message { is_question, queue_pair, nonce: 0x0102_0304_0506_0708 };
            assert_eq!(Message::parse(&message.bytes()), Some(message));
        }
        let good = Message { is_question: true, queue_pair: Some(17), nonce: 1 }.bytes();
        assert_eq!(
            [Message::parse(&good[..23]), Message::parse(&[good.as_slice(), &[0]].concat())],
            [None, None]
        );
        // Any 24 bits but the last few numbers are a queue pair.
        for at in 0..13 {
            let mut bad = good;
            bad[at] ^= 0x80;
            assert_eq!(Message::parse(&bad), None, "byte {at}");
        }
    }

    fn note(seen: &mut Vec<Heard>, heard: Heard) -> bool {
        seen.push(heard);
        false
    }

    fn gid(text: &str) -> Gid {
        gid_of(text.parse().unwrap())
    }

    #[test]
    fn question_is_answered_by_an_end_that_receives() {
        let (here, there) = (gid("127.0.0.1"), gid("127.81.0.2"));
        let (mut asking, mut answering) =
            (Resolver::open(&here, 0, false).unwrap(), Resolver::open(&there, 0, true).unwrap());
        assert!(Resolver::open(&there, 0, true).is_err());
        let mut seen = Vec::new();
        asking.ask(&there, Some(16));
        assert!(answering.serve(Some(17), |heard| note(&mut seen, heard)));
        assert!(asking.serve(Some(16), |heard| note(&mut seen, heard)));
        assert_eq!(seen, [Heard::Question(here, 16), Heard::Answer(17)]);
        // One that does not receive yet keeps still.
        asking.ask(&there, None);
        answering.serve(None, |_| panic!("no peer"));
        asking.serve(None, |_| panic!("no answer"));
    }

    #[test]
    fn answer_that_was_not_asked_for_or_names_another_question_is_none() {
        let (here, there, third) = (gid("127.81.0.3"), gid("127.81.0.4"), gid("127.81.0.5"));
        let mut asking = Resolver::open(&here, 0, false).unwrap();
        let (asked, other) =
            (Resolver::open(&there, 0, true).unwrap(), Resolver::open(&third, 0, true).unwrap());
        let to = asking.socket.local_addr().unwrap();
        let send = |by: &Resolver, nonce| {
            let answer = Message { is_question: false, queue_pair: Some(66), nonce };
            by.socket.send_to(&answer.bytes(), to).unwrap();
        };
        send(&asked, 0);
        asking.serve(None, |_| panic!("not asked"));
        asking.ask(&there, None);
        let nonce = asking.asked.unwrap().1;
        send(&asked, nonce ^ 1);
        send(&other, nonce);
        asking.serve(None, |_| panic!("not the answer"));
        // A repeated question keeps its number, and has one answer.
        asking.ask(&there, None);
        send(&asked, nonce);
        send(&asked, nonce);
        let mut seen = Vec::new();
        asking.serve(None, |heard| note(&mut seen, heard));
        assert_eq!(seen, [Heard::Answer(66)]);
        asking.ask(&there, None);
        assert_ne!(asking.asked.unwrap().1, nonce);
    }
}
