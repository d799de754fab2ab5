//! Addresses: a port's GID, the queue pair behind it, and the Ethernet address by which frames of this machine name it.

use crate::ibverbs::Gid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Highest number of a queue pair that a peer may have: numbers have 24 bits, and the last one names multicast groups.
const QUEUE_PAIR_MAX: u32 = 0xff_fffe;

/// A peer as a specification names it: `GID` or `GID/QPN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its port.
    pub gid: Gid,
    /// Its queue pair; `None` to ask for it.
    pub queue_pair: Option<u32>,
}

impl PeerAddress {
    /// Reads an IPv6 or IPv4 address, and the number of a queue pair behind a slash.
    ///
    /// # Errors
    /// The reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, number) = match text.split_once('/') {
            Some((address, number)) => (address, Some(number)),
            None => (text, None),
        };
        let gid = address
            .parse()
            .map(gid_of)
            .map_err(|_| format!("\"{}\" is no GID: an IPv6 or IPv4 address", address.escape_debug()))?;
        let queue_pair = number.map(|number| match number.parse() {
            Ok(number) if is_queue_pair(number) => Ok(number),
            _ => Err(format!(
                "\"{}\" is no queue pair: 2 to {QUEUE_PAIR_MAX} (`rdma resource show qp`)",
                number.escape_debug()
            )),
        });
        Ok(Self { gid, queue_pair: queue_pair.transpose()? })
    }
}

/// True for a number that the queue pair of a program may have: 0 and 1 are the port's own.
pub(super) fn is_queue_pair(number: u32) -> bool {
    (2..=QUEUE_PAIR_MAX).contains(&number)
}

/// Returns the GID of an IP address: on RoCE a port has one for each of its interface's addresses.
pub(super) fn gid_of(address: IpAddr) -> Gid {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the IP address of a GID of RoCE.
pub(super) fn ip_of(gid: &Gid) -> IpAddr {
    let address = Ipv6Addr::from(*gid);
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// Returns the GID of the IPv4 address `address`.
pub(super) fn gid_of_v4(address: [u8; 4]) -> Gid {
    gid_of(IpAddr::V4(Ipv4Addr::from(address)))
}

/// Returns the Ethernet address by which frames name the port with `gid`: the interface's own where the GID is made of it (EUI-64,
/// RFC 4291 appendix A), else a local one of the GID's last bytes.
pub(super) fn mac_of(gid: &Gid) -> Mac {
    match ip_of(gid) {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(_) if gid[11..13] == [0xff, 0xfe] => {
            [gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]]
        }
        IpAddr::V6(_) => [2, gid[11], gid[12], gid[13], gid[14], gid[15]],
    }
}

/// Returns `gid` as people write it.
pub(super) fn text_of(gid: &Gid) -> String {
    ip_of(gid).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_read_with_and_without_queue_pair() {
        let peer = PeerAddress::parse("10.9.0.2").unwrap();
        assert_eq!((peer.gid[10..].to_vec(), peer.queue_pair), (vec![0xff, 0xff, 10, 9, 0, 2], None));
        let peer = PeerAddress::parse("fe80::1/17").unwrap();
        assert_eq!((peer.gid[0], peer.gid[15], peer.queue_pair), (0xfe, 1, Some(17)));
        assert_eq!(text_of(&peer.gid), "fe80::1");
        for (text, says) in [
            ("", "no GID"),
            ("rxe0", "no GID"),
            ("::1/", "no queue pair"),
            ("::1/1", "2 to"),
            ("::1/16777215", "2 to"),
        ] {
            assert!(PeerAddress::parse(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn ethernet_address_of_a_gid_is_the_interfaces_or_a_local_one() {
        let gid = |text: &str| gid_of(text.parse().unwrap());
        assert_eq!(mac_of(&gid("fe80::a8bb:ccff:fedd:eeff")), [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        assert_eq!(mac_of(&gid("10.9.0.2")), [2, 0, 10, 9, 0, 2]);
        assert_eq!(mac_of(&gid("2001:db8::1:2:304")), [2, 1, 0, 2, 3, 4]);
    }
}
