//! `Flight`: which pieces under way are of which packet.
//!
//! A device gives pieces back in any order, beside frames that are none. Each piece's buffer is marked with its packet's
//! place; a packet is through when it has been cut to its end and no piece is left.

use wharf_mem::Frame;

/// Packets under way at most.
const PACKETS_MAX: usize = 1024;

/// A packet's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

#[derive(Debug)]
struct Packet {
    /// `None` while its own memory serves its pieces.
    frame: Option<Frame>,
    /// Pieces that are not back.
    pieces: u32,
    /// Why the first piece failed that did.
    failure: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Flight {
    /// By index of a piece's first buffer: its packet's place, from 1; 0 for no piece.
    places: Box<[u16]>,
    packets: Vec<Option<Packet>>,
    free: Vec<Place>,
    /// Pieces of all packets that are not back.
    pieces: usize,
    pool: u8,
}

impl Flight {
    /// For frames of pool number `pool`, which has so many.
    pub(super) fn new(pool: u8, frames: u32) -> Self {
        let packets = (0..PACKETS_MAX).map(|_| None).collect();
        let free = (0..PACKETS_MAX as u16).rev().map(Place).collect();
        Self { places: vec![0; frames as usize].into(), packets, free, pieces: 0, pool }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Packets inside.
    pub(super) fn packets(&self) -> usize {
        PACKETS_MAX - self.free.len()
    }

    /// Pieces that are not back.
    #[inline]
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Keeps a packet that is about to be cut.
    ///
    /// # Errors
    /// There is no place.
    pub(super) fn add(&mut self, frame: Frame) -> Result<Place, Frame> {
        let Some(place) = self.free.pop() else { return Err(frame) };
        self.packets[usize::from(place.0)] = Some(Packet { frame: Some(frame), pieces: 0, failure: None });
        Ok(place)
    }

    pub(super) fn frame(&self, place: Place) -> Option<&Frame> {
        self.packets[usize::from(place.0)].as_ref()?.frame.as_ref()
    }

    /// Takes the frame of a packet out, which goes on being under way.
    pub(super) fn take(&mut self, place: Place) -> Option<Frame> {
        self.packet(place)?.frame.take()
    }

    /// Notes that `pieces` are pieces of the packet.
    pub(super) fn mark(&mut self, place: Place, pieces: &[Frame]) {
        for piece in pieces {
            self.places[piece.index() as usize] = place.0 + 1;
        }
        if let Some(packet) = self.packet(place) {
            packet.pieces += pieces.len() as u32;
        }
        self.pieces += pieces.len();
    }

    /// Whose piece a frame is that has come back, which then is nobody's; `None` for an ordinary one.
    #[inline]
    pub(super) fn land(&mut self, frame: &Frame) -> Option<Place> {
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

    /// Notes why a packet has failed, unless that is known already.
    pub(super) fn fail(&mut self, place: Place, reason: &'static str) {
        if let Some(packet) = self.packet(place) {
            packet.failure.get_or_insert(reason);
        }
    }

    #[inline]
    fn packet(&mut self, place: Place) -> Option<&mut Packet> {
        self.packets[usize::from(place.0)].as_mut()
    }

    /// Whether there is a packet and none of its pieces is under way.
    #[inline]
    pub(super) fn is_back(&self, place: Place) -> bool {
        self.packets[usize::from(place.0)].as_ref().is_some_and(|packet| packet.pieces == 0)
    }

    /// Lets go of a packet: its frame, if that is here, and why it failed, if it did.
    pub(super) fn end(&mut self, place: Place) -> (Option<Frame>, Option<&'static str>) {
        let Some(packet) = self.packets[usize::from(place.0)].take() else { return (None, None) };
        self.free.push(place);
        (packet.frame, packet.failure)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.packets.iter().flatten().filter_map(|packet| packet.frame.as_ref()).for_each(see);
    }
}
