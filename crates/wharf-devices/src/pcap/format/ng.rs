//! pcapng files, read block by block. Layout: draft-ietf-opsawg-pcapng, sections 3 and 4.
//!
//! A file is a row of sections, each in a byte order of its own, as its first block says. A block is its kind
//! and its length, its content, and its length again. Interface blocks describe the packets that name them,
//! and the unit of their time. Enhanced, simple and (obsolete) packet blocks hold a packet each. All other
//! blocks, and all options but three of interfaces and the flags of packets, are skipped.
//!
//! Rejected, besides the records that the module above rejects: a block whose two lengths differ, are no
//! multiple of 4 or too short for its kind; a version other than 1.0 (and 1.2, which some writers use and
//! means the same); a packet of an interface that was not described; options of an interface that leave their
//! block; a resolution finer than 64 bits can count; a time before 1970 or after 2554.
//!
//! A simple packet has no time: it takes that of the packet before it.

mod interface;

use std::io::Read;

use super::input::Input;
use super::{
    ByteOrder, Fault, INTERFACES_MAX, LINK_TYPE_ETHERNET, Packets, PcapError, Record, check_lengths,
};
use interface::Interface;

/// The kind of the first block of a section, the same in both byte orders: a file begins with it.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
pub(super) const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// Option codes of all blocks, and of packets (sections 3.5 and 4.3).
pub(super) const OPTION_END: u16 = 0;
const OPTION_FLAGS: u16 = 2;
/// In the flags: above this, four bits with the bytes of check sequence.
const FLAGS_CHECK_SEQUENCE_SHIFT: u32 = 5;

pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Bytes of kind and length before a block's content, and of the length after it.
const HEAD_BYTES: u32 = 8;
const FRAME_BYTES: u32 = 12;
/// Byte-order magic, version and the section's length.
const SECTION_FIELDS: usize = 16;

/// The current section.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) byte_order: ByteOrder,
    interfaces: Vec<Interface>,
    /// Time of the last packet, for packets without one.
    last_ns: u64,
    /// What the last packet is.
    pub(super) packets: Packets,
}

/// The current block: its stated length, and the bytes that have not been read.
struct Block {
    len_bytes: u32,
    left_bytes: u32,
}

/// Offsets of the fields of a packet block, and their values.
struct PacketFields {
    interface: u32,
    /// In the interface's units; `None` for a packet without a time.
    time_units: Option<u64>,
    /// `None`: as the interface's snap length allows.
    captured: Option<u32>,
    wire: u32,
}

impl Section {
    /// Reads the first section of a file, behind its first four bytes, which are [`SECTION`].
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, PcapError> {
        let packets = Packets { link_type: LINK_TYPE_ETHERNET, check_sequence_bytes: 0 };
        let (byte_order, interfaces) = (ByteOrder::Little, Vec::new());
        let mut section = Self { byte_order, interfaces, last_ns: 0, packets };
        let mut len = [0; 4];
        let present = input.fill(&mut len)?;
        if present < len.len() {
            return Err(input.malformed(Fault::BlockHeadCutShort { present: 4 + present }));
        }
        section.begin(input, len)?;
        Ok(section)
    }

    /// Begins a section, in place of the last one: its kind and length have been read.
    fn begin<R: Read>(&mut self, input: &mut Input<R>, len: [u8; 4]) -> Result<(), PcapError> {
        let mut fields = [0; SECTION_FIELDS];
        let present = input.fill(&mut fields)?;
        let found = [fields[0], fields[1], fields[2], fields[3]];
        let order = [ByteOrder::Little, ByteOrder::Big].into_iter();
        let order = order.into_iter().find(|order| order.u32_at(&found, 0) == BYTE_ORDER_MAGIC);
        self.byte_order = match order {
            Some(order) => order,
            None if present < found.len() => {
                return Err(input.malformed(Fault::BlockHeadCutShort { present: 8 + present }));
            }
            None => return Err(input.malformed(Fault::ByteOrderMagic { found })),
        };
        let len_bytes = self.byte_order.u32_at(&len, 0);
        let mut block = Block::new(len_bytes, "section header", SECTION_FIELDS as u32)
            .map_err(|fault| input.malformed(fault))?;
        if present < fields.len() {
            return Err(block.cut_short(input));
        }
        block.left_bytes -= fields.len() as u32;
        let (major, minor) = (self.byte_order.u16_at(&fields, 4), self.byte_order.u16_at(&fields, 6));
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(input.malformed(Fault::NgVersion { major, minor }));
        }
        self.interfaces.clear();
        block.end(input, self.byte_order)
    }

    /// Reads blocks up to and including the next packet's: its captured bytes into `buf`. `None` at the end.
    pub(super) fn next<R: Read>(
        &mut self, input: &mut Input<R>, buf: &mut Vec<u8>,
    ) -> Result<Option<Record>, PcapError> {
        loop {
            input.begin();
            let mut head = [0; HEAD_BYTES as usize];
            match input.fill(&mut head)? {
                0 => return Ok(None),
                8 => {}
                present => return Err(input.malformed(Fault::BlockHeadCutShort { present })),
            }
            let [a, b, c, d, len @ ..] = head;
            if [a, b, c, d] == SECTION {
                self.begin(input, len)?;
                continue;
            }
            let (kind, len_bytes) = (self.byte_order.u32_at(&head, 0), self.byte_order.u32_at(&head, 4));
            let (name, least_bytes) = shape(kind);
            let mut block =
                Block::new(len_bytes, name, least_bytes).map_err(|fault| input.malformed(fault))?;
            let record = match kind {
                INTERFACE => self.add_interface(input, &mut block).map(|()| None)?,
                ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET => {
                    Some(self.packet(input, &mut block, kind, buf)?)
                }
                _ => None,
            };
            block.end(input, self.byte_order)?;
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn add_interface<R: Read>(&mut self, input: &mut Input<R>, block: &mut Block) -> Result<(), PcapError> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(input.malformed(Fault::InterfacesTooMany));
        }
        self.interfaces.push(Interface::read(input, block, self.byte_order)?);
        Ok(())
    }

    fn packet<R: Read>(
        &mut self, input: &mut Input<R>, block: &mut Block, kind: u32, buf: &mut Vec<u8>,
    ) -> Result<Record, PcapError> {
        let fields = self.packet_fields(input, block, kind)?;
        let (captured, ts_ns) = self.check(&fields, block).map_err(|fault| input.malformed(fault))?;
        buf.resize(captured as usize, 0); // at most SNAP_LEN_MAX
        block.read(input, buf)?;
        self.last_ns = ts_ns;
        self.packets = self.interfaces[fields.interface as usize].packets;
        if kind != SIMPLE_PACKET {
            block.skip(input, captured.next_multiple_of(4) - captured)?;
            self.read_flags(input, block)?;
        }
        Ok(Record { ts_ns, wire_len: fields.wire.max(captured), left_out: None })
    }

    /// Reads the options behind a packet, up to its flags, which may tell of a check sequence.
    fn read_flags<R: Read>(&mut self, input: &mut Input<R>, block: &mut Block) -> Result<(), PcapError> {
        while let Some((code, len)) = block.option(input, self.byte_order)? {
            let padded = u32::from(len).next_multiple_of(4);
            if padded > block.left_bytes {
                break; // no reader minds it
            }
            if (code, len) != (OPTION_FLAGS, 4) {
                block.skip(input, padded)?;
                continue;
            }
            let mut flags = [0; 4];
            block.read(input, &mut flags)?;
            match self.byte_order.u32_at(&flags, 0) >> FLAGS_CHECK_SEQUENCE_SHIFT & 0xf {
                0 => {}
                bytes => self.packets.check_sequence_bytes = bytes,
            }
        }
        Ok(())
    }

    fn packet_fields<R: Read>(
        &self, input: &mut Input<R>, block: &mut Block, kind: u32,
    ) -> Result<PacketFields, PcapError> {
        let order = self.byte_order;
        let mut fields = [0; 20];
        if kind == SIMPLE_PACKET {
            block.read(input, &mut fields[..4])?;
            let wire = order.u32_at(&fields, 0);
            return Ok(PacketFields { interface: 0, time_units: None, captured: None, wire });
        }
        block.read(input, &mut fields)?;
        let interface = match kind {
            OBSOLETE_PACKET => order.u16_at(&fields, 0).into(), // then: packets dropped
            _ => order.u32_at(&fields, 0),
        };
        let time_units = u64::from(order.u32_at(&fields, 4)) << 32 | u64::from(order.u32_at(&fields, 8));
        let (captured, wire) = (order.u32_at(&fields, 12), order.u32_at(&fields, 16));
        Ok(PacketFields { interface, time_units: Some(time_units), captured: Some(captured), wire })
    }

    /// Returns the number of bytes of a packet that follow, and its time.
    fn check(&self, fields: &PacketFields, block: &Block) -> Result<(u32, u64), Fault> {
        let place = usize::try_from(fields.interface).unwrap_or(usize::MAX);
        let Some(interface) = self.interfaces.get(place) else {
            return Err(Fault::NoInterface { interface: fields.interface, described: self.interfaces.len() });
        };
        let captured = match (fields.captured, interface.snap_len) {
            (Some(captured), _) => captured,
            (None, 0) => fields.wire,
            (None, snap_len) => fields.wire.min(snap_len),
        };
        check_lengths(captured, fields.wire.max(captured))?;
        if captured > block.left_bytes {
            return Err(Fault::PacketOverBlock { captured, room: block.left_bytes });
        }
        let ts_ns = match fields.time_units {
            Some(units) => interface.ts_ns(units).ok_or(Fault::TimeOutOfRange { units })?,
            None => self.last_ns,
        };
        Ok((captured, ts_ns))
    }
}

/// Returns the name of a kind of block, and the least number of bytes of its fields.
const fn shape(kind: u32) -> (&'static str, u32) {
    match kind {
        INTERFACE => ("interface description", 8),
        ENHANCED_PACKET => ("enhanced packet", 20),
        SIMPLE_PACKET => ("simple packet", 4),
        OBSOLETE_PACKET => ("packet", 20),
        _ => ("block", 0),
    }
}

impl Block {
    fn new(len_bytes: u32, name: &'static str, fields_bytes: u32) -> Result<Self, Fault> {
        if !len_bytes.is_multiple_of(4) {
            return Err(Fault::BlockUneven { len: len_bytes });
        }
        let least = fields_bytes + FRAME_BYTES;
        match len_bytes.checked_sub(FRAME_BYTES).filter(|&left| left >= fields_bytes) {
            Some(left_bytes) => Ok(Self { len_bytes, left_bytes }),
            None => Err(Fault::BlockTooShort { name, len: len_bytes, least }),
        }
    }

    /// Reads the next bytes of the block; the caller has checked that it holds so many.
    fn read<R: Read>(&mut self, input: &mut Input<R>, bytes: &mut [u8]) -> Result<(), PcapError> {
        if input.fill(bytes)? < bytes.len() {
            return Err(self.cut_short(input));
        }
        self.left_bytes -= bytes.len() as u32;
        Ok(())
    }

    /// Reads the head of the next option, if there is one: its code and its length.
    fn option<R: Read>(
        &mut self, input: &mut Input<R>, order: ByteOrder,
    ) -> Result<Option<(u16, u16)>, PcapError> {
        // A block's length is a multiple of 4, and so is all that was read of it.
        if self.left_bytes == 0 {
            return Ok(None);
        }
        let mut head = [0; 4];
        self.read(input, &mut head)?;
        let (code, len) = (order.u16_at(&head, 0), order.u16_at(&head, 2));
        Ok((code != OPTION_END).then_some((code, len)))
    }

    fn skip<R: Read>(&mut self, input: &mut Input<R>, count: u32) -> Result<(), PcapError> {
        if input.skip(count.into())? < count.into() {
            return Err(self.cut_short(input));
        }
        self.left_bytes -= count;
        Ok(())
    }

    /// Skips the rest, and checks that the length comes again.
    fn end<R: Read>(mut self, input: &mut Input<R>, order: ByteOrder) -> Result<(), PcapError> {
        self.skip(input, self.left_bytes)?;
        let mut again = [0; 4];
        if input.fill(&mut again)? < again.len() {
            return Err(self.cut_short(input));
        }
        let again = order.u32_at(&again, 0);
        if again != self.len_bytes {
            return Err(input.malformed(Fault::BlockLengths { first: self.len_bytes, last: again }));
        }
        Ok(())
    }

    fn cut_short<R: Read>(&self, input: &Input<R>) -> PcapError {
        input.malformed(Fault::BlockCutShort { present: input.record_bytes(), len: self.len_bytes })
    }
}
