//! Description of an interface by `RTM_GETLINK`: its kind, the interfaces below and above it, its queues and its XDP program.
//!
//! Numbers and layouts: include/uapi/linux/if_link.h.

use super::{LINK_MESSAGE_BYTES, attributes, nested, word};
use crate::call::text;
use std::io;

// Not in libc 0.2.
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_VLAN_ID: u16 = 1;

/// A description of a network interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkInfo {
    /// Kind of a virtual interface (`IFLA_INFO_KIND`): `veth`, `vlan`, `bond`, `macvlan`; `None` for an adapter.
    pub kind: Option<String>,
    /// Index of the interface below, or of the other end of a veth pair, in this network namespace.
    pub lower: Option<i32>,
    /// Index of the bond or bridge that the interface is a port of.
    pub master: Option<i32>,
    /// VLAN number of a VLAN interface.
    pub vlan: Option<u16>,
    /// Transmit queues that the interface was made with; the driver may use fewer.
    pub tx_queues: u32,
    /// Receive queues that the interface was made with; the driver may use fewer.
    pub rx_queues: u32,
    /// XDP program, if one is attached.
    pub program: Option<AttachedProgram>,
}

/// The XDP program of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedProgram {
    /// Number of the program; 0 if several are attached, in several modes.
    pub id: u32,
    /// The place where it runs.
    pub mode: AttachMode,
}

/// The place where an attached XDP program runs (`XDP_ATTACHED_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver.
    Native,
    /// In the kernel's generic path.
    Generic,
    /// In the adapter.
    Offloaded,
    /// Several programs, in several places.
    Several,
}

impl AttachMode {
    /// Returns the mode in a word.
    pub fn word(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
            AttachMode::Offloaded => "offloaded",
            AttachMode::Several => "several",
        }
    }
}

/// Reads a description from the kernel's answer. Indices of interfaces in another network namespace are left out.
pub(super) fn read(answer: &[u8]) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    let mut is_elsewhere = false;
    for (attribute, value) in attributes(answer, libc::RTM_NEWLINK, LINK_MESSAGE_BYTES)? {
        let number = word(value, 0);
        match attribute {
            libc::IFLA_LINK => info.lower = number.map(i32::from_ne_bytes),
            libc::IFLA_LINK_NETNSID => is_elsewhere = true,
            libc::IFLA_MASTER => info.master = number.map(i32::from_ne_bytes),
            libc::IFLA_NUM_TX_QUEUES => info.tx_queues = number.map_or(0, u32::from_ne_bytes),
            libc::IFLA_NUM_RX_QUEUES => info.rx_queues = number.map_or(0, u32::from_ne_bytes),
            libc::IFLA_XDP => info.program = program(value),
            libc::IFLA_LINKINFO => read_kind(value, &mut info),
            _ => {}
        }
    }
    if is_elsewhere {
        info.lower = None;
    }
    Ok(info)
}

fn read_kind(value: &[u8], info: &mut LinkInfo) {
    for (attribute, value) in nested(value) {
        match attribute {
            libc::IFLA_INFO_KIND => info.kind = Some(text(value)),
            libc::IFLA_INFO_DATA if info.kind.as_deref() == Some("vlan") => {
                let id = nested(value).find(|(attribute, _)| *attribute == IFLA_VLAN_ID);
                info.vlan = id.and_then(|(_, id)| Some(u16::from_ne_bytes(*id.first_chunk()?)));
            }
            _ => {}
        }
    }
}

fn program(value: &[u8]) -> Option<AttachedProgram> {
    let of = |wanted| nested(value).find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value);
    let mode = match of(IFLA_XDP_ATTACHED)?.first()? {
        0 => return None,
        1 => AttachMode::Native,
        2 => AttachMode::Generic,
        3 => AttachMode::Offloaded,
        _ => AttachMode::Several,
    };
    let id = of(IFLA_XDP_PROG_ID).and_then(|value| word(value, 0)).map_or(0, u32::from_ne_bytes);
    Some(AttachedProgram { id, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (4 + value.len()) as u16;
        let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn answer(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut answer = vec![0u8; LINK_MESSAGE_BYTES];
        answer[4] = libc::RTM_NEWLINK as u8;
        answer.extend(attributes.concat());
        answer
    }

    #[test]
    fn a_vlan_with_a_program_is_read_whole() {
        let data = attribute(libc::IFLA_INFO_DATA | 0x8000, &attribute(IFLA_VLAN_ID, &5u16.to_ne_bytes()));
        let kind = [attribute(libc::IFLA_INFO_KIND, b"vlan\0"), data].concat();
        let xdp =
            [attribute(IFLA_XDP_ATTACHED, &[2]), attribute(IFLA_XDP_PROG_ID, &77u32.to_ne_bytes())].concat();
        let answer = answer(&[
            attribute(libc::IFLA_LINK, &3i32.to_ne_bytes()),
            attribute(libc::IFLA_MASTER, &9i32.to_ne_bytes()),
            attribute(libc::IFLA_NUM_TX_QUEUES, &4u32.to_ne_bytes()),
            attribute(libc::IFLA_NUM_RX_QUEUES, &2u32.to_ne_bytes()),
            attribute(libc::IFLA_XDP | 0x8000, &xdp),
            attribute(libc::IFLA_LINKINFO, &kind),
        ]);
        let want = LinkInfo {
            kind: Some("vlan".into()),
            lower: Some(3),
            master: Some(9),
            vlan: Some(5),
            tx_queues: 4,
            rx_queues: 2,
            program: Some(AttachedProgram { id: 77, mode: AttachMode::Generic }),
        };
        assert_eq!(read(&answer).unwrap(), want);
        for len in 0..answer.len() {
            let _ = read(&answer[..len]);
        }
    }

    #[test]
    fn no_program_and_a_link_elsewhere_are_none() {
        let mut answer = answer(&[
            attribute(libc::IFLA_LINK, &7i32.to_ne_bytes()),
            attribute(libc::IFLA_LINK_NETNSID, &0i32.to_ne_bytes()),
            attribute(libc::IFLA_XDP, &attribute(IFLA_XDP_ATTACHED, &[0])),
        ]);
        assert_eq!(read(&answer).unwrap(), LinkInfo::default());
        answer[4] = libc::RTM_NEWLINK as u8 + 1;
        assert!(read(&answer).is_err() && read(&[]).is_err());
    }
}
