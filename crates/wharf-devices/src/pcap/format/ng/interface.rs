//! The interface description of a section: the type of its packets, and the unit of their time stamps.

use std::io::Read;

use super::super::input::Input;
use super::super::{ByteOrder, Fault, Packets, PcapError};
use super::Block;

/// Option codes (section 4.2) that matter here.
const OPTION_RESOLUTION: u16 = 9;
const OPTION_CHECK_SEQUENCE: u16 = 13;
const OPTION_OFFSET: u16 = 14;

const NS_PER_SECOND: u64 = 1_000_000_000;
/// In a resolution: powers of 2, not of 10.
const BINARY: u8 = 0x80;

/// One interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    pub(super) packets: Packets,
    /// In bytes; 0 for no bound.
    pub(super) snap_len: u32,
    units_per_second: u64,
    /// Start of the time stamps, in seconds after 1970.
    offset_s: i64,
}

impl Interface {
    /// Reads the description from the block.
    pub(super) fn read<R: Read>(
        input: &mut Input<R>, block: &mut Block, order: ByteOrder,
    ) -> Result<Self, PcapError> {
        let mut fields = [0; 8];
        block.read(input, &mut fields)?;
        let mut interface = Self {
            packets: Packets { link_type: order.u16_at(&fields, 0).into(), check_sequence_bytes: 0 },
            snap_len: order.u32_at(&fields, 4),
            units_per_second: 1_000_000,
            offset_s: 0,
        };
        while let Some((code, len)) = block.option(input, order)? {
            let padded = u32::from(len).next_multiple_of(4);
            if padded > block.left_bytes {
                return Err(input.malformed(Fault::OptionOverBlock { code, len, room: block.left_bytes }));
            }
            interface.read_option(input, block, order, (code, len))?;
            block.skip(input, padded - u32::from(len))?;
        }
        Ok(interface)
    }

    fn read_option<R: Read>(
        &mut self, input: &mut Input<R>, block: &mut Block, order: ByteOrder, (code, len): (u16, u16),
    ) -> Result<(), PcapError> {
        let expected = match code {
            OPTION_RESOLUTION | OPTION_CHECK_SEQUENCE => 1,
            OPTION_OFFSET => 8,
            _ => return block.skip(input, len.into()),
        };
        if len != expected {
            return Err(input.malformed(Fault::OptionLength { code, len, expected }));
        }
        let mut value = [0; 8];
        block.read(input, &mut value[..usize::from(len)])?;
        match code {
            OPTION_RESOLUTION => {
                let units = units_per_second(value[0]);
                self.units_per_second =
                    units.ok_or_else(|| input.malformed(Fault::ResolutionTooFine { stated: value[0] }))?;
            }
            // In bits, by the specification; many writers have bytes, and some 255 for an unknown length.
            OPTION_CHECK_SEQUENCE => {
                self.packets.check_sequence_bytes = match value[0] {
                    bytes @ 0..8 => bytes.into(),
                    u8::MAX => 0,
                    bits => u32::from(bits) / 8,
                }
            }
            _ => self.offset_s = order.u64_at(&value, 0) as i64,
        }
        Ok(())
    }

    /// A time stamp in nanoseconds since 1970, the rest cut off; `None` before that or beyond 64 bits.
    pub(super) fn ts_ns(&self, units: u64) -> Option<u64> {
        let (seconds, fraction) = (units / self.units_per_second, units % self.units_per_second);
        let fraction_ns =
            u128::from(fraction) * u128::from(NS_PER_SECOND) / u128::from(self.units_per_second);
        let seconds = i128::from(seconds) + i128::from(self.offset_s);
        u64::try_from(seconds * i128::from(NS_PER_SECOND) + fraction_ns as i128).ok()
    }
}

/// Returns the units per second that the option's byte states: a power of 10, or with the top bit a power of 2.
fn units_per_second(stated: u8) -> Option<u64> {
    match stated & BINARY {
        0 => 10u64.checked_pow(stated.into()),
        _ => 1u64.checked_shl((stated & !BINARY).into()),
    }
}
