//! Socket addresses in the kernel's form: `sockaddr_in` and `sockaddr_in6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const _: () = assert!(size_of::<libc::sockaddr_in>() == 16 && size_of::<libc::sockaddr_in6>() == 28);

const FAMILY_V4: [u8; 2] = (libc::AF_INET as u16).to_ne_bytes();
const FAMILY_V6: [u8; 2] = (libc::AF_INET6 as u16).to_ne_bytes();
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;

/// Room for an address of either kind.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(4))]
pub(super) struct Address(pub(super) [u8; V6_BYTES]);

impl Address {
    pub(super) const EMPTY: Self = Self([0; V6_BYTES]);

    /// Writes `address`, and returns its length, bytes.
    pub(super) fn write(&mut self, address: &SocketAddr) -> usize {
        let to = &mut self.0;
        to[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                to[..2].copy_from_slice(&FAMILY_V4);
                to[4..8].copy_from_slice(&address.ip().octets());
                to[8..16].fill(0);
                V4_BYTES
            }
            SocketAddr::V6(address) => {
                to[..2].copy_from_slice(&FAMILY_V6);
                to[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
                to[8..24].copy_from_slice(&address.ip().octets());
                to[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                V6_BYTES
            }
        }
    }

    /// Reads the address that the kernel has written, `len` bytes; `None` for any other kind.
    pub(super) fn read(&self, len: usize) -> Option<SocketAddr> {
        let bytes = self.0.get(..len)?;
        let port = u16::from_be_bytes(array(bytes, 2)?);
        if bytes.starts_with(&FAMILY_V4) && len == V4_BYTES {
            let ip: Ipv4Addr = array::<4>(bytes, 4)?.into();
            return Some((IpAddr::V4(ip), port).into());
        }
        if !bytes.starts_with(&FAMILY_V6) {
            return None;
        }
        let (flow, scope) = (u32::from_be_bytes(array(bytes, 4)?), u32::from_ne_bytes(array(bytes, 24)?));
        let ip: Ipv6Addr = array::<16>(bytes, 8)?.into();
        Some(SocketAddrV6::new(ip, port, flow, scope).into())
    }
}

/// Returns `N` bytes from `at` on.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_written_is_read() {
        let mut place = Address::EMPTY;
        for text in ["192.0.2.1:53", "[2001:db8::1]:65535", "[fe80::1%7]:1", "[::ffff:192.0.2.1]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let len = place.write(&address);
            assert_eq!(place.read(len), Some(address), "{text}");
            assert_eq!((place.read(len - 1), place.read(0), place.read(29)), (None, None, None), "{text}");
        }
        place.0[0] = 1;
        assert_eq!(place.read(V6_BYTES), None, "another family");
    }
}
