//! `Resolver`: asks a peer for the number of its queue pair, and answers such questions.
//!
//! IPoIB learns this number from answers of the address resolution protocol, which it sends to a multicast group. Membership of such a
//! group is a matter of the subnet manager, which verbs do not reach. On RoCE a GID is an IP address of the port's interface: so a
//! question and its answer are UDP datagrams between the two addresses, from and to [`PORT`].

use super::address::{gid_of, ip_of, is_queue_pair};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use wharf_sys::verbs::Gid;

/// UDP port of ends that receive.
pub const PORT: u16 = 24791;
/// First bytes of a message.
const MAGIC: [u8; 8] = *b"wharf-qp";
/// Bytes of a message: [`MAGIC`], the kind, three zeros, and the number of the sender's queue pair, or 0 if that does not receive.
const MESSAGE_BYTES: usize = 16;
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
}

impl Message {
    fn bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = if self.is_question { QUESTION } else { ANSWER };
        bytes[12..].copy_from_slice(&self.queue_pair.unwrap_or(0).to_be_bytes());
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
        is_sound.then_some(Self { is_question, queue_pair: is_queue_pair(number).then_some(number) })
    }
}

/// A socket for questions and answers at the address of one GID.
#[derive(Debug)]
pub(super) struct Resolver {
    socket: UdpSocket,
    /// Number of the interface, which link-local addresses want.
    interface: u32,
}

impl Resolver {
    /// Opens a socket at the address of `gid`, of interface number `interface`: at [`PORT`] if it `answers`, else at any port.
    ///
    /// # Errors
    /// `EADDRINUSE` if another one answers there, `EADDRNOTAVAIL` if the address is not this namespace's.
    pub(super) fn open(gid: &Gid, interface: u32, answers: bool) -> io::Result<Self> {
        let socket = UdpSocket::bind(socket_address(gid, interface, if answers { PORT } else { 0 }))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, interface })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Asks the port with `gid` for its queue pair, and names `own`, which receives, or none. A question that cannot be sent is asked
    /// again like one that was lost.
    pub(super) fn ask(&self, gid: &Gid, own: Option<u32>) {
        let question = Message { is_question: true, queue_pair: own };
        let _ = self.socket.send_to(&question.bytes(), socket_address(gid, self.interface, PORT));
    }

    /// Reads what has come, without waiting: answers questions with `own`, if that receives, and shows each peer that has named its queue
    /// pair to `see`.
    pub(super) fn serve(&self, own: Option<u32>, mut see: impl FnMut(&Gid, u32)) {
        let mut bytes = [0; MESSAGE_BYTES + 1];
        for _ in 0..READ_MAX {
            let (len, from) = match self.socket.recv_from(&mut bytes) {
                Ok(read) => read,
                // Nobody listened at an address that was asked.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            let Some(message) = Message::parse(&bytes[..len]) else { continue };
            if message.is_question && own.is_some() {
                let answer = Message { is_question: false, queue_pair: own };
                let _ = self.socket.send_to(&answer.bytes(), from);
            }
            // An answer from another port is none of an end that receives.
            if let Some(number) = message.queue_pair.filter(|_| message.is_question || from.port() == PORT) {
                see(&gid_of(from.ip()), number);
            }
        }
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
            let message = Message { is_question, queue_pair };
            assert_eq!(Message::parse(&message.bytes()), Some(message));
        }
        let good = Message { is_question: true, queue_pair: Some(17) }.bytes();
        assert_eq!(
            [Message::parse(&good[..15]), Message::parse(&[good.as_slice(), &[0]].concat())],
            [None, None]
        );
        // Any 24 bits but the last few numbers are a queue pair.
        for at in 0..13 {
            let mut bad = good;
            bad[at] ^= 0x80;
            assert_eq!(Message::parse(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn question_is_answered_by_an_end_that_receives() {
        let gid = |text: &str| gid_of(text.parse().unwrap());
        let (here, there) = (gid("127.0.0.1"), gid("127.81.0.2"));
        let (asking, answering) =
            (Resolver::open(&here, 0, false).unwrap(), Resolver::open(&there, 0, true).unwrap());
        assert!(Resolver::open(&there, 0, true).is_err());
        let mut seen = Vec::new();
        asking.ask(&there, Some(16));
        answering.serve(Some(17), |gid, number| seen.push((*gid, number)));
        asking.serve(Some(16), |gid, number| seen.push((*gid, number)));
        assert_eq!(seen, [(here, 16), (there, 17)]);
        // One that does not receive yet keeps still.
        asking.ask(&there, None);
        answering.serve(None, |_, _| panic!("no peer"));
        asking.serve(None, |_, _| panic!("no answer"));
    }
}
