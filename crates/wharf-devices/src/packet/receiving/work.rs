//! `Work`: a frame that does not arrive as it lies in the ring.

use super::SuperPackets;
use super::pieces::Pieces;
use crate::iface::ETHERTYPE_AT;
use crate::vnet::VnetHeader;
use wharf_mem::Meta;
use wharf_packet::checksum;
use wharf_sys::packet::Received;

/// Reason that a frame cannot be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxReject {
    /// The frame was longer than its part in the ring.
    Truncated,
    /// The header before the frame does not fit it.
    Malformed,
}

/// Returns true if a frame arrives as it lies in the ring.
#[inline]
pub fn is_plain(frame: &Received<'_>) -> bool {
    let header = VnetHeader::read(&frame.vnet_header);
    let is_whole = frame.wire_bytes as usize <= frame.bytes.len();
    is_whole && frame.vlan.is_none() && !header.needs_checksum && header.gso_kind == 0
}

/// The current frame, whole, and its treatment.
#[derive(Debug, Default)]
pub struct Work {
    /// The frame with its VLAN tag back in place.
    packet: Vec<u8>,
    meta: Meta,
    /// Plan of its segments, and the next segment.
    cut: Option<(Pieces, usize)>,
    segment: Vec<u8>,
    is_pending: bool,
}

impl Work {
    pub fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Copies a frame and prepares it.
    pub fn load(&mut self, frame: &Received<'_>, super_packets: SuperPackets) -> Result<(), RxReject> {
        if frame.wire_bytes as usize > frame.bytes.len() {
            return Err(RxReject::Truncated);
        }
        let header = VnetHeader::read(&frame.vnet_header);
        let tag_bytes = self.restore(frame)?;
        self.meta = Meta { time_ns: frame.time_ns, ..Meta::default() };
        self.cut = None;
        let start = usize::from(header.checksum_start) + tag_bytes;
        match (header.gso_kind, super_packets) {
            (0, _) if header.needs_checksum => {
                if !checksum::complete_transport(&mut self.packet, start, header.checksum_offset.into()) {
                    return Err(RxReject::Malformed);
                }
            }
            (0, _) => {}
            (_, way) => {
                let pieces = self.pieces(&header, start).ok_or(RxReject::Malformed)?;
                // A receiver could not segment a tunnelled packet.
                if way == SuperPackets::Cut || pieces.are_tunnelled() {
                    self.cut = Some((pieces, 0));
                    self.load_segment();
                } else {
                    self.keep(&header, start)?;
                }
            }
        }
        self.is_pending = true;
        Ok(())
    }

    /// Copies the frame with its tag. Returns the bytes of the tag.
    fn restore(&mut self, frame: &Received<'_>) -> Result<usize, RxReject> {
        self.packet.clear();
        let Some((protocol, control)) = frame.vlan else {
            self.packet.extend_from_slice(frame.bytes);
            return Ok(0);
        };
        let (addresses, rest) = frame.bytes.split_at_checked(ETHERTYPE_AT).ok_or(RxReject::Malformed)?;
        self.packet.extend_from_slice(addresses);
        self.packet.extend(protocol.to_be_bytes());
        self.packet.extend(control.to_be_bytes());
        self.packet.extend_from_slice(rest);
        Ok(size_of_val(&protocol) + size_of_val(&control))
    }

    fn pieces(&self, header: &VnetHeader, checksum_start: usize) -> Option<Pieces> {
        let VnetHeader { gso_kind, gso_bytes, needs_checksum, .. } = *header;
        let meta = Meta { gso_kind, gso_bytes, needs_checksum, ..Meta::default() };
        Pieces::new(&self.packet, checksum_start, &meta)
    }

    /// Notes how to segment it, for the next sender.
    fn keep(&mut self, header: &VnetHeader, start: usize) -> Result<(), RxReject> {
        self.meta.gso_bytes = header.gso_bytes;
        self.meta.gso_kind = header.gso_kind;
        self.meta.needs_checksum = header.needs_checksum;
        self.meta.checksum_start = u16::try_from(start).map_err(|_| RxReject::Malformed)?;
        self.meta.checksum_offset = header.checksum_offset;
        Ok(())
    }

    fn load_segment(&mut self) {
        if let Some((pieces, at)) = self.cut {
            self.segment.resize(pieces.bytes(at), 0);
            pieces.write(&self.packet, at, &mut self.segment);
        }
    }

    /// Returns the next frame to arrive.
    pub fn next(&self) -> (&[u8], Meta) {
        (if self.cut.is_some() { &self.segment } else { &self.packet }, self.meta)
    }

    /// Moves on to the next segment.
    pub fn done(&mut self) {
        match &mut self.cut {
            Some((pieces, at)) if *at + 1 < pieces.count() => {
                *at += 1;
                self.load_segment();
            }
            _ => self.is_pending = false,
        }
    }
}
