//! Advanced descriptors: `ixgbe` and `igb`.
//!
//! Layout: Linux `ixgbe_type.h`, `union ixgbe_adv_tx_desc` and `ixgbe_adv_rx_desc` (82599 data sheet, 7.2.3.2.4 and
//! 7.1.6), and `e1000_82575.h`, where they are the same. Little endian.

use super::{Descriptor, Layout, Received, ToSend, u16_at, u32_at, u64_at};

const LENGTH_MASK: u32 = 0xffff;
const TYPE_MASK: u32 = 0xf << 20;
const DATA: u32 = 3 << 20;
const EOP: u32 = 1 << 24;
const IFCS: u32 = 1 << 25;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const PAYLOAD_SHIFT: u32 = 14;
const DONE: u32 = 1;
const RECEIVED_LAST: u32 = 1 << 1;
const ERRORS_SHIFT: u32 = 20;

/// Of `ixgbe` and `igb`.
#[derive(Debug, Clone, Copy)]
pub struct Advanced;

fn of_words(low: u64, third: u32, fourth: u32) -> Descriptor {
    let mut descriptor = [0; 16];
    descriptor[..8].copy_from_slice(&low.to_le_bytes());
    descriptor[8..12].copy_from_slice(&third.to_le_bytes());
    descriptor[12..].copy_from_slice(&fourth.to_le_bytes());
    descriptor
}

impl Layout for Advanced {
    fn to_send(what: &ToSend) -> Descriptor {
        let flags = if what.last { EOP } else { 0 } | if what.report { RS } else { 0 };
        let command = DATA | IFCS | DEXT | flags | (what.len_bytes & LENGTH_MASK);
        of_words(what.address, command, what.len_bytes << PAYLOAD_SHIFT)
    }

    fn read_to_send(descriptor: &Descriptor) -> Result<ToSend, &'static str> {
        let command = u32_at(descriptor, 8);
        if command & (TYPE_MASK | DEXT) != DATA | DEXT {
            return Err("an advanced descriptor that describes no data");
        }
        let len_bytes = command & LENGTH_MASK;
        if len_bytes == 0 {
            return Err("a descriptor of 0 bytes");
        }
        let (last, report) = (command & EOP != 0, command & RS != 0);
        Ok(ToSend { address: u64_at(descriptor, 0), len_bytes, last, report })
    }

    fn sent(_descriptor: &Descriptor) -> Descriptor {
        of_words(0, 0, DONE)
    }

    fn is_sent(descriptor: &Descriptor) -> bool {
        u32_at(descriptor, 12) & DONE != 0
    }

    fn to_receive(address: u64) -> Descriptor {
        // The header's address, whose lowest bit the NIC writes DD over, is not used.
        of_words(address, 0, 0)
    }

    fn read_to_receive(descriptor: &Descriptor) -> u64 {
        u64_at(descriptor, 0)
    }

    fn received(_descriptor: &Descriptor, packet: &Received) -> Descriptor {
        let status = DONE | if packet.last { RECEIVED_LAST } else { 0 } | packet.errors << ERRORS_SHIFT;
        of_words(0, status, packet.len_bytes & LENGTH_MASK)
    }

    fn read_received(descriptor: &Descriptor) -> Option<Received> {
        let status = u32_at(descriptor, 8);
        (status & DONE != 0).then(|| Received {
            len_bytes: u16_at(descriptor, 12).into(),
            last: status & RECEIVED_LAST != 0,
            errors: status >> ERRORS_SHIFT,
        })
    }
}
