//! The default routes of a network namespace, in all tables: `ip route show table all default`.

use super::dump::dump;
use super::{HEADER_BYTES, Netlink, half, nested, word};
use std::io;

/// Bytes of `struct rtmsg` (linux/rtnetlink.h), and offsets in it.
const ROUTE_BYTES: usize = 12;
const DESTINATION_BITS_AT: usize = 1;
const TYPE_AT: usize = 7;
/// Bytes of `struct rtnexthop`, and the offset of the interface's index in it.
const NEXT_HOP_BYTES: usize = 8;
const NEXT_HOP_INTERFACE_AT: usize = 4;
/// Dumps of a family to ask for, while routes change meanwhile.
const TRIES: usize = 3;

impl Netlink {
    /// Returns the indices of the interfaces that a default route of any table leads to. A family that the
    /// kernel does not answer for has none.
    pub fn default_routes() -> Vec<i32> {
        let of = |family| (0..TRIES).find_map(|_| defaults(family).ok()).unwrap_or_default();
        let mut interfaces = [of(libc::AF_INET), of(libc::AF_INET6)].concat();
        interfaces.sort_unstable();
        interfaces.dedup();
        interfaces
    }
}

fn defaults(family: i32) -> io::Result<Vec<i32>> {
    let (mut body, mut interfaces) = ([0; ROUTE_BYTES], Vec::new());
    body[0] = family as u8;
    dump(libc::RTM_GETROUTE, &body, &mut |message| interfaces.extend(default_of(message)))?;
    Ok(interfaces)
}

/// Returns the interfaces of a route, if it is a default route that packets can take.
fn default_of(message: &[u8]) -> Vec<i32> {
    let route = message.get(HEADER_BYTES..HEADER_BYTES + ROUTE_BYTES).unwrap_or(&[u8::MAX; ROUTE_BYTES]);
    if half(message, 4) != Some(libc::RTM_NEWROUTE)
        || route[DESTINATION_BITS_AT] != 0
        || route[TYPE_AT] != libc::RTN_UNICAST
    {
        return Vec::new();
    }
    let attributes = nested(message.get(HEADER_BYTES + ROUTE_BYTES..).unwrap_or_default());
    attributes
        .flat_map(|(attribute, value)| match attribute {
            libc::RTA_OIF => word(value, 0).map(i32::from_ne_bytes).into_iter().collect(),
            libc::RTA_MULTIPATH => next_hops(value),
            _ => Vec::new(),
        })
        .collect()
}

/// Returns the interfaces of a multipath route's next hops.
fn next_hops(mut hops: &[u8]) -> Vec<i32> {
    let mut interfaces = Vec::new();
    while let (Some(bytes), Some(interface)) = (half(hops, 0), word(hops, NEXT_HOP_INTERFACE_AT)) {
        interfaces.push(i32::from_ne_bytes(interface));
        let bytes = usize::from(bytes).max(NEXT_HOP_BYTES).next_multiple_of(4);
        hops = hops.get(bytes..).unwrap_or_default();
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::super::dump::{FLAGS_AT, read_part};
    use super::*;

    /// A message of a dump: a route to a network of `bits`, with attributes.
    fn route(kind: u16, bits: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; HEADER_BYTES + ROUTE_BYTES];
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_BYTES + DESTINATION_BITS_AT] = bits;
        message[HEADER_BYTES + TYPE_AT] = libc::RTN_UNICAST;
        for (attribute, value) in attributes {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(attribute.to_ne_bytes());
            message.extend(*value);
        }
        let bytes = (message.len() as u32).to_ne_bytes();
        message[..4].copy_from_slice(&bytes);
        message
    }

    #[test]
    fn default_routes_of_a_dump_are_found_and_lies_end_it() {
        let hop = |index: u8| [8, 0, 0, 0, index, 0, 0, 0].map(|byte: u8| byte);
        let hops = [hop(5), hop(6)].concat();
        let parts = [
            route(libc::RTM_NEWROUTE, 24, &[(libc::RTA_OIF, &[2, 0, 0, 0])]),
            route(
                libc::RTM_NEWROUTE,
                0,
                &[(libc::RTA_TABLE, &[77, 0, 0, 0]), (libc::RTA_OIF, &[3, 0, 0, 0])],
            ),
            route(libc::RTM_NEWROUTE, 0, &[(libc::RTA_MULTIPATH, &hops)]),
            // Since Linux 6.9 the end of a dump may come with its last routes.
            route(libc::NLMSG_DONE as u16, 0, &[]),
        ];
        let dump = parts.concat();
        let read = |bytes: &[u8]| {
            let mut found = Vec::new();
            let ended = read_part(bytes, &mut |message| found.extend(default_of(message)));
            ended.map(|ended| (ended, found))
        };
        if cfg!(target_endian = "little") {
            assert_eq!(read(&dump).unwrap(), (true, vec![3, 5, 6]));
            let all_but_the_end: usize = parts[..3].iter().map(Vec::len).sum();
            assert_eq!(read(&dump[..all_but_the_end]).unwrap(), (false, vec![3, 5, 6]));
        }
        for len in 0..dump.len() {
            _ = read(&dump[..len]);
        }
        for at in 0..dump.len() {
            for lie in [0, 1, u8::MAX] {
                let mut dump = dump.clone();
                dump[at] = lie;
                _ = read(&dump);
            }
        }
    }

    #[test]
    fn a_dump_that_ends_early_is_an_error() {
        let end = |errno: i32| [&[20, 0, 0, 0, 3, 0, 0, 0][..], &[0; 8], &errno.to_ne_bytes()].concat();
        let read = |bytes: &[u8]| read_part(bytes, &mut |_| ());
        if cfg!(target_endian = "little") {
            assert!(read(&end(0)).unwrap());
            assert_eq!(read(&end(-libc::ENOBUFS)).unwrap_err().raw_os_error(), Some(libc::ENOBUFS));
            let mut interrupted = end(0);
            interrupted[FLAGS_AT] = libc::NLM_F_DUMP_INTR as u8;
            assert_eq!(read(&interrupted).unwrap_err().kind(), io::ErrorKind::Interrupted);
        }
    }

    #[test]
    fn the_kernels_dump_is_read_to_its_end() {
        assert!(defaults(libc::AF_INET).is_ok());
        assert_eq!(Netlink::default_routes(), Netlink::default_routes());
    }
}
