//! The neighbour on the way to an address: `ip route get`, then `ip neigh get`.

use super::{ANSWER_BYTES, HEADER_BYTES, Netlink, Request, attributes, half, nested, strange};
use std::io;
use std::net::IpAddr;

/// Bytes of `struct rtmsg`, and of `struct ndmsg` (linux/rtnetlink.h, linux/neighbour.h).
const BODY_BYTES: usize = 12;
const ATTRIBUTES_AT: usize = HEADER_BYTES + BODY_BYTES;
/// Places within `struct ndmsg`.
const NEIGHBOUR_INTERFACE_AT: usize = 4;
const NEIGHBOUR_STATE_AT: usize = HEADER_BYTES + 8;
const NDA_DST: u16 = 1;

impl Netlink {
    /// Returns true if no neighbour answers on the way to `to`: the kernel asks for the address of the host, or of its
    /// router, or has given up asking (`NUD_INCOMPLETE`, `NUD_FAILED`).
    ///
    /// # Errors
    /// `ENETUNREACH` without a route; `ENOENT` if the kernel knows no such neighbour.
    pub fn lacks_neighbour(&self, to: IpAddr) -> io::Result<bool> {
        let (family, destination) = bytes_of(to);
        let route = self.route(family, &destination)?;
        let gateway = attribute(&route, libc::RTA_GATEWAY).map_or(destination, <[u8]>::to_vec);
        let interface = attribute(&route, libc::RTA_OIF).ok_or_else(strange)?;
        let mut body = [0; BODY_BYTES];
        body[0] = family;
        let room = &mut body[NEIGHBOUR_INTERFACE_AT..NEIGHBOUR_INTERFACE_AT + 4];
        room.copy_from_slice(interface.get(..4).ok_or_else(strange)?);
        let neighbour = self.get(libc::RTM_GETNEIGH, &body, NDA_DST, &gateway)?;
        let state = half(&neighbour, NEIGHBOUR_STATE_AT).ok_or_else(strange)?;
        Ok(state & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0)
    }

    /// Returns the index of the interface by which the kernel sends to `to`.
    ///
    /// # Errors
    /// `ENETUNREACH` without a route.
    pub fn interface_to(&self, to: IpAddr) -> io::Result<i32> {
        let (family, destination) = bytes_of(to);
        let route = self.route(family, &destination)?;
        let index = attribute(&route, libc::RTA_OIF).and_then(|index| index.first_chunk());
        index.map(|index| i32::from_ne_bytes(*index)).ok_or_else(strange)
    }

    /// Asks for the route to an address.
    fn route(&self, family: u8, destination: &[u8]) -> io::Result<Vec<u8>> {
        let mut body = [0; BODY_BYTES];
        (body[0], body[1]) = (family, (destination.len() * 8) as u8);
        self.get(libc::RTM_GETROUTE, &body, libc::RTA_DST, destination)
    }

    /// Asks for one object by a message of `kind` with one attribute.
    fn get(&self, kind: u16, body: &[u8; BODY_BYTES], attribute: u16, value: &[u8]) -> io::Result<Vec<u8>> {
        let mut answer = [0; ANSWER_BYTES];
        let count = self.ask(Request::new(kind, 0, body).with(attribute, value), &mut answer)?;
        // `RTM_NEW...` is the answer to `RTM_GET...`.
        _ = attributes(&answer[..count], kind - 2, ATTRIBUTES_AT)?;
        Ok(answer[..count].to_vec())
    }
}

fn bytes_of(address: IpAddr) -> (u8, Vec<u8>) {
    match address.to_canonical() {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

/// Returns the value of the attribute `wanted` of an answer.
fn attribute(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    nested(answer.get(ATTRIBUTES_AT..)?).find(|(number, _)| *number == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_lies_are_none() {
        let mut answer = vec![0; ATTRIBUTES_AT];
        answer.extend([6, 0, 1, 0, 7, 8, 0, 0, 8, 0, 4, 0, 1, 2, 3, 4]);
        let native = |bytes: &mut [u8]| {
            let number = u16::from_le_bytes([bytes[0], bytes[1]]);
            bytes[..2].copy_from_slice(&number.to_ne_bytes());
        };
        [0, 2, 8, 10].into_iter().for_each(|at| native(&mut answer[ATTRIBUTES_AT + at..]));
        assert_eq!(attribute(&answer, 1), Some(&[7, 8][..]));
        assert_eq!(attribute(&answer, 4), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&answer, 9), None);
        for len in 0..answer.len() {
            assert_eq!(attribute(&answer[..len], 4), None, "{len}");
        }
        for lie in [0u16, 3, u16::MAX] {
            answer[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(attribute(&answer, 4), None, "{lie}");
        }
    }

    #[test]
    fn loopback_lacks_no_neighbour() {
        let netlink = Netlink::open().unwrap();
        // Loopback is the first interface of each namespace.
        assert!(netlink.interface_to("127.0.0.1".parse().unwrap()).is_ok_and(|index| index == 1));
        for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
            // Loopback may be down, or have no entry.
            assert!(!netlink.lacks_neighbour(address.parse().unwrap()).unwrap_or(false), "{address}");
        }
    }
}
