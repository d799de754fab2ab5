//! `InFlight`: the packets whose segments are in flight.
//!
//! A device completes segments in any order, among other frames. Each segment's first buffer is marked with its packet's place. A packet
//! is complete when its last segment has been made and no segment is in flight.

use wharf_mem::Frame;

/// Packets in flight at most.
const PACKETS_MAX: usize = 1024;

/// The place of a packet in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

#[derive(Debug)]
struct Packet {
    /// `None` while its own memory serves its segments.
    frame: Option<Frame>,
    /// Segments in flight.
    pieces: u32,
    /// The reason of the first segment that failed.
    failure: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct InFlight {
    /// The place of the packet, from 1, by index of a segment's first buffer; 0 for other frames.
    places: Box<[u16]>,
    packets: Vec<Option<Packet>>,
    free: Vec<Place>,
    /// Segments of all packets in flight.
    pieces: usize,
    pool: u8,
}

impl InFlight {
    /// Makes a table for pool number `pool`, which has `frames` frames.
    pub(super) fn new(pool: u8, frames: u32) -> Self {
        let packets = (0..PACKETS_MAX).map(|_| None).collect();
        let free = (0..PACKETS_MAX as u16).rev().map(Place).collect();
        Self { places: vec![0; frames as usize].into(), packets, free, pieces: 0, pool }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the packets in the table.
    pub(super) fn packets(&self) -> usize {
        PACKETS_MAX - self.free.len()
    }

    /// Returns the segments in flight.
    #[inline]
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Adds a packet that is about to be segmented.
    ///
    /// # Errors
    /// The table is full: returns the frame.
    pub(super) fn add(&mut self, frame: Frame) -> Result<Place, Frame> {
        let Some(place) = self.free.pop() else { return Err(frame) };
        self.packets[usize::from(place.0)] = Some(Packet { frame: Some(frame), pieces: 0, failure: None });
        Ok(place)
    }

    pub(super) fn frame(&self, place: Place) -> Option<&Frame> {
        self.packets[usize::from(place.0)].as_ref()?.frame.as_ref()
    }

    /// Takes the frame of a packet out; the packet stays in the table.
    pub(super) fn take(&mut self, place: Place) -> Option<Frame> {
        self.packet(place)?.frame.take()
    }

    /// Marks `pieces` as segments of the packet.
    pub(super) fn mark(&mut self, place: Place, pieces: &[Frame]) {
        for piece in pieces {
            self.places[piece.index() as usize] = place.0 + 1;
        }
        if let Some(packet) = self.packet(place) {
            packet.pieces += pieces.len() as u32;
        }
        self.pieces += pieces.len();
    }

    /// Completes a frame: returns the packet that it is a segment of, and clears the mark; `None` for other frames.
    #[inline]
    pub(super) fn complete(&mut self, frame: &Frame) -> Option<Place> {
        if frame.pool() != self.pool {
            return None;
        }
        let mark = self.places.get_mut(frame.index() as usize)?;
        let place = Place(std::mem::take(mark).checked_sub(1)?);
        if let Some(packet) = self.packet(place) {
            packet.pieces -= 1;
        }
        self.pieces -= 1;
        Some(place)
    }

    /// Records the reason why a packet has failed, unless it has one.
    pub(super) fn fail(&mut self, place: Place, reason: &'static str) {
        if let Some(packet) = self.packet(place) {
            packet.failure.get_or_insert(reason);
        }
    }

    #[inline]
    fn packet(&mut self, place: Place) -> Option<&mut Packet> {
        self.packets[usize::from(place.0)].as_mut()
    }

    /// Returns true if the packet is in the table and none of its segments is in flight.
    #[inline]
    pub(super) fn is_back(&self, place: Place) -> bool {
        self.packets[usize::from(place.0)].as_ref().is_some_and(|packet| packet.pieces == 0)
    }

    /// Removes a packet. Returns its frame, if it is here, and the reason why it failed, if it did.
    pub(super) fn end(&mut self, place: Place) -> (Option<Frame>, Option<&'static str>) {
        let Some(packet) = self.packets[usize::from(place.0)].take() else { return (None, None) };
        self.free.push(place);
        (packet.frame, packet.failure)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.packets.iter().flatten().filter_map(|packet| packet.frame.as_ref()).for_each(see);
    }
}
