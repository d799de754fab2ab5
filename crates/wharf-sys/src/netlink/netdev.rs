//! XDP features of a driver by the generic netlink family `netdev` (Linux 6.3).
//!
//! Numbers and layouts: include/uapi/linux/netdev.h, include/uapi/linux/genetlink.h, Documentation/netlink/specs/netdev.yaml.

use super::{ANSWER_BYTES, HEADER_BYTES, Netlink, Request, attributes, half, strange, word};
use crate::call::socket;
use std::io;

const FAMILY: &[u8] = b"netdev\0";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
/// Bytes of the message's header, and of `struct genlmsghdr` behind it.
pub(super) const NETDEV_BYTES: usize = HEADER_BYTES + 4;

/// The XDP features that a driver reports. An older kernel reports fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XdpFeatures {
    /// It runs programs, and hands frames over to sockets without copying (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
    pub zero_copy: bool,
    /// Most buffers of a frame in zero-copy; 0 if unknown.
    pub zero_copy_buffers_max: u32,
    /// It computes checksums of frames sent without copying (`NETDEV_XSK_FLAGS_TX_CHECKSUM`).
    pub tx_checksum: bool,
    /// It reports the time at which a frame that is sent without copying has left (`NETDEV_XSK_FLAGS_TX_TIMESTAMP`).
    pub tx_timestamp: bool,
    /// It sends a frame at the time that its metadata name (`NETDEV_XSK_FLAGS_TX_LAUNCH_TIME_FIFO`).
    pub tx_launch_time: bool,
    /// It tells programs a frame's time of arrival (`NETDEV_XDP_RX_METADATA_TIMESTAMP`).
    pub rx_timestamp: bool,
    /// It tells programs a frame's hash.
    pub rx_hash: bool,
    /// It tells programs the VLAN tag that it has taken out of a frame.
    pub rx_vlan_tag: bool,
}

/// Returns the XDP features of the driver of interface `index` in this network namespace.
///
/// # Errors
/// `ENOENT` if the kernel has no such family (before Linux 6.3), `ENODEV` without such an interface.
pub fn xdp_features(index: i32) -> io::Result<XdpFeatures> {
    let asker = Asker::new()?;
    let answer = asker.ask(NETDEV_CMD_DEV_GET, &[(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes())])?;
    features(&answer, asker.family)
}

/// A socket for questions to the family.
#[derive(Debug)]
pub(super) struct Asker {
    netlink: Netlink,
    pub(super) family: u16,
}

impl Asker {
    /// Opens a socket, and asks for the number of the family.
    pub(super) fn new() -> io::Result<Self> {
        let netlink = Netlink(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC)?);
        let mut answer = [0; ANSWER_BYTES];
        let asked = question(libc::GENL_ID_CTRL as u16, libc::CTRL_CMD_GETFAMILY as u8);
        let count = netlink.ask(asked.with(libc::CTRL_ATTR_FAMILY_NAME as u16, FAMILY), &mut answer)?;
        Ok(Self { family: family(&answer[..count])?, netlink })
    }

    /// Sends command `command` with these attributes. Returns the answer.
    pub(super) fn ask(&self, command: u8, attributes: &[(u16, [u8; 4])]) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; ANSWER_BYTES];
        let asked = question(self.family, command);
        let asked = attributes.iter().fold(asked, |asked, (number, value)| asked.with(*number, value));
        let count = self.netlink.ask(asked, &mut answer)?;
        answer.truncate(count);
        Ok(answer)
    }
}

/// Begins a message to `family` with command `command`, of the family's version 1. The kernel answers a
/// setting only if it fails.
fn question(family: u16, command: u8) -> Request {
    Request::new(family, 0, &[command, 1, 0, 0])
}

/// Reads the number of the family from the controller's answer.
fn family(answer: &[u8]) -> io::Result<u16> {
    let mut attributes = attributes(answer, libc::GENL_ID_CTRL as u16, NETDEV_BYTES)?;
    let number = attributes.find(|(number, _)| *number == libc::CTRL_ATTR_FAMILY_ID as u16);
    number.and_then(|(_, value)| half(value, 0)).ok_or_else(strange)
}

/// Reads the features from the family's answer.
fn features(answer: &[u8], family: u16) -> io::Result<XdpFeatures> {
    let mut features = XdpFeatures::default();
    for (attribute, value) in attributes(answer, family, NETDEV_BYTES)? {
        let bits = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let has = |bit: u32| bits >> bit & 1 == 1;
        match attribute {
            NETDEV_A_DEV_XDP_FEATURES => features.zero_copy = has(3),
            NETDEV_A_DEV_XDP_ZC_MAX_SEGS => {
                features.zero_copy_buffers_max = word(value, 0).map_or(0, u32::from_ne_bytes);
            }
            NETDEV_A_DEV_XDP_RX_METADATA_FEATURES => {
                (features.rx_timestamp, features.rx_hash, features.rx_vlan_tag) = (has(0), has(1), has(2));
            }
            NETDEV_A_DEV_XSK_FEATURES => {
                (features.tx_timestamp, features.tx_checksum, features.tx_launch_time) =
                    (has(0), has(1), has(2));
            }
            _ => {}
        }
    }
    Ok(features)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut answer = vec![0; NETDEV_BYTES];
        answer[4..6].copy_from_slice(&kind.to_ne_bytes());
        for (number, value) in attributes {
            answer.extend((4 + value.len() as u16).to_ne_bytes());
            answer.extend(number.to_ne_bytes());
            answer.extend(*value);
            answer.resize(answer.len().next_multiple_of(4), 0);
        }
        answer
    }

    #[test]
    fn features_are_the_bits_of_the_answer() {
        let (xdp, rx, tx) = (0x7bu64.to_ne_bytes(), 0b101u64.to_ne_bytes(), 0b10u64.to_ne_bytes());
        let bytes =
            answer(30, &[(1, &[7, 0, 0, 0]), (3, &xdp), (4, &1u32.to_ne_bytes()), (5, &rx), (6, &tx)]);
        let read = features(&bytes, 30).unwrap();
        let want = XdpFeatures {
            zero_copy: true,
            zero_copy_buffers_max: 1,
            tx_checksum: true,
            rx_timestamp: true,
            rx_vlan_tag: true,
            ..XdpFeatures::default()
        };
        assert_eq!(read, want);
        assert!(features(&bytes, 31).is_err());
        for len in 0..bytes.len() {
            let _ = (features(&bytes[..len], 30), family(&bytes[..len]));
        }
    }

    #[test]
    fn a_message_is_as_long_as_it_says() {
        let message = question(16, 3).with(2, FAMILY).bytes();
        assert_eq!(message.len() % 4, 0);
        assert_eq!(u32::from_ne_bytes(*message.first_chunk().unwrap()), message.len() as u32);
        assert_eq!(&message[24..31], FAMILY);
    }
}
