//! Legacy descriptors: `e1000`.
//!
//! Layout: Linux `e1000_hw.h`, `struct e1000_tx_desc` and `e1000_rx_desc` (82540EM manual, 3.3.3 and 3.2.3). Little
//! endian.

use super::{Descriptor, Layout, Received, ToSend, u16_at, u64_at};

const EOP: u8 = 1;
const IFCS: u8 = 1 << 1;
const RS: u8 = 1 << 3;
const DEXT: u8 = 1 << 5;
const DONE: u8 = 1;
const RECEIVED_LAST: u8 = 1 << 1;
const COMMAND_AT: usize = 11;
const STATUS_AT: usize = 12;
const ERRORS_AT: usize = 13;

/// Of `e1000`.
#[derive(Debug, Clone, Copy)]
pub struct Legacy;

impl Layout for Legacy {
    fn to_send(what: &ToSend) -> Descriptor {
        let mut descriptor = [0; 16];
        descriptor[..8].copy_from_slice(&what.address.to_le_bytes());
        descriptor[8..10].copy_from_slice(&(what.len_bytes as u16).to_le_bytes());
        descriptor[COMMAND_AT] = IFCS | if what.last { EOP } else { 0 } | if what.report { RS } else { 0 };
        descriptor
    }

    fn read_to_send(descriptor: &Descriptor) -> Result<ToSend, &'static str> {
        let (len_bytes, command) = (u16_at(descriptor, 8), descriptor[COMMAND_AT]);
        if command & DEXT != 0 {
            return Err("an extended descriptor in a legacy ring");
        }
        if len_bytes == 0 {
            return Err("a descriptor of 0 bytes");
        }
        let (last, report) = (command & EOP != 0, command & RS != 0);
        Ok(ToSend { address: u64_at(descriptor, 0), len_bytes: len_bytes.into(), last, report })
    }

    fn sent(descriptor: &Descriptor) -> Descriptor {
        let mut descriptor = *descriptor;
        descriptor[STATUS_AT] |= DONE;
        descriptor
    }

    fn is_sent(descriptor: &Descriptor) -> bool {
        descriptor[STATUS_AT] & DONE != 0
    }

    fn to_receive(address: u64) -> Descriptor {
        let mut descriptor = [0; 16];
        descriptor[..8].copy_from_slice(&address.to_le_bytes());
        descriptor
    }

    fn read_to_receive(descriptor: &Descriptor) -> u64 {
        u64_at(descriptor, 0)
    }

    fn received(descriptor: &Descriptor, packet: &Received) -> Descriptor {
        let mut descriptor = *descriptor;
        descriptor[8..10].copy_from_slice(&(packet.len_bytes as u16).to_le_bytes());
        descriptor[STATUS_AT] = DONE | if packet.last { RECEIVED_LAST } else { 0 };
        descriptor[ERRORS_AT] = packet.errors as u8;
        descriptor
    }

    fn read_received(descriptor: &Descriptor) -> Option<Received> {
        let status = descriptor[STATUS_AT];
        (status & DONE != 0).then(|| Received {
            len_bytes: u16_at(descriptor, 8).into(),
            last: status & RECEIVED_LAST != 0,
            errors: descriptor[ERRORS_AT].into(),
        })
    }
}
