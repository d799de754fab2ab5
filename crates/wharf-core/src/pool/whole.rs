//! Bytes at both ends of a packet: room behind it, headers in front, parts made one.

use super::times::{keeping_times, set_meta};
use super::{NoRoom, Packet, PacketMut};
use crate::offload::complete_frame;
use wharf_mem::{Frame, MemError, Meta, Region};
use wharf_packet::checksum::{ChunkSum, UDP_OFFSET};
use wharf_packet::gso::GsoRequest;
use wharf_packet::{Datagram, Front, UdpHeaders};

impl Packet {
    /// Makes the packet longer by `bytes` at the back, and returns them to be written; they are zeros.
    ///
    /// ```
    /// # mod wharf { pub use wharf_core::pool::PagePool; }
    /// use wharf::PagePool;
    ///
    /// let pool = PagePool::builder().frames(16).huge_pages(false).build()?;
    /// let mut packet = pool.packet(100)?;
    /// packet.bytes_mut().fill(1); // the bytes of a fresh packet are what was there before
    /// packet.extend_back(16)?.copy_from_slice(&[7; 16]); // the tag of a cipher, a record, padding
    /// assert_eq!(packet.len(), 116);
    /// assert_eq!(packet.extend_back(1421).map(|_| ()).unwrap_err().max_bytes, 1420);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoRoom`] for more than its frame has left; none of a chain is left. Nothing is changed then.
    pub fn extend_back(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
        let (pool, frame) = self.parts();
        extend_back(pool.region(), frame, bytes)
    }

    /// Copies the parts of a chain ([`Packet::is_chain`]) behind its first one, which then is the packet, and
    /// frees them. A packet that is no chain stays as it is.
    ///
    /// ```
    /// # mod wharf { pub use wharf_core::pool::PagePool; }
    /// use wharf::PagePool;
    ///
    /// let pool = PagePool::builder().frames(16).huge_pages(false).build()?;
    /// let mut packet = pool.packet(1472)?;
    /// packet.append(pool.packet(8)?).map_err(|(error, _)| error)?;
    /// packet.join()?;
    /// assert_eq!(packet.bytes_mut().len(), 1480);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoRoom`] if they do not fit the first frame; nothing is changed then.
    pub fn join(&mut self) -> Result<(), NoRoom> {
        let (pool, frame) = self.parts();
        let (region, bytes) = (pool.region(), frame.len_bytes());
        let max_bytes = region.room_bytes(frame);
        if region.is_chain(frame) && bytes > max_bytes {
            return Err(NoRoom { bytes: bytes as usize, max_bytes: max_bytes as usize });
        }
        let Some(rest) = region.unlink(frame) else { return Ok(()) };
        let rest = Packet::new(rest, pool.clone());
        let mut at = frame.len_bytes() as usize;
        // Cannot fail: it is no chain any more, and there is room.
        let _ = region.set_len(frame, bytes);
        let whole = region.bytes_mut(frame).unwrap_or_default();
        for chunk in rest.chunks() {
            whole[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        Ok(())
    }

    /// Reads the UDP datagram in the packet. `None` where [`Datagram::parse`] says so; for a chain whose
    /// first part does not have all of it ([`Packet::join`]); for a super-packet, which has several
    /// ([`Packet::segments`]).
    pub fn datagram(&self) -> Option<Datagram<'_>> {
        Datagram::parse(self.head()).filter(|_| self.meta().gso_bytes == 0)
    }

    /// Takes the headers off a UDP datagram, so that its payload is left, and returns those of an answer.
    /// It is written in the same memory, and leaves by [`UdpHeaders::put`].
    ///
    /// `None`, with nothing changed, where [`Packet::datagram`] or [`UdpHeaders::reply_to`] says so, and
    /// for a chain.
    ///
    /// ```
    /// # mod wharf { pub use wharf_core::pool::PagePool; pub use wharf_packet as net; }
    /// use wharf::net::UdpHeaders;
    /// use wharf::PagePool;
    ///
    /// let pool = PagePool::builder().frames(16).huge_pages(false).build()?;
    /// let (client, server) = ("192.0.2.1:5000".parse()?, "198.51.100.1:7".parse()?);
    /// let mut packet = pool.packet(5)?;
    /// packet.bytes_mut().copy_from_slice(b"what?");
    /// UdpHeaders::between(client, server).expect("one version of IP").put(&mut packet)?;
    ///
    /// // The server's part.
    /// let headers = packet.reply().expect("a whole datagram");
    /// assert_eq!(packet.bytes(), b"what?");
    /// packet.set_len(4)?;
    /// packet.bytes_mut().copy_from_slice(b"that");
    /// headers.put(&mut packet)?;
    /// let answer = packet.datagram().expect("a whole datagram");
    /// assert_eq!((answer.destination, answer.payload), (client, &b"that"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reply(&mut self) -> Option<UdpHeaders> {
        let (pool, frame) = self.parts();
        reply(pool.region(), frame)
    }
}

impl PacketMut<'_> {
    /// Makes the packet longer at the back: see [`Packet::extend_back`].
    ///
    /// # Errors
    /// [`NoRoom`], and nothing is changed.
    pub fn extend_back(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
        extend_back(self.region, self.frame, bytes)
    }

    /// Reads the UDP datagram in the packet: see [`Packet::datagram`].
    pub fn datagram(&self) -> Option<Datagram<'_>> {
        let meta = self.region.meta(self.frame).ok().filter(|meta| meta.gso_bytes == 0);
        meta.and_then(|_| Datagram::parse(self.region.bytes(self.frame).ok()?))
    }

    /// Takes the headers off a UDP datagram, and returns those of an answer: see [`Packet::reply`].
    pub fn reply(&mut self) -> Option<UdpHeaders> {
        reply(self.region, self.frame)
    }
}

fn reply(region: &Region, frame: &mut Frame) -> Option<UdpHeaders> {
    let meta = region.meta(frame).ok().filter(|meta| meta.gso_bytes == 0 && !region.is_chain(frame))?;
    let (headers, payload) = UdpHeaders::reply_to(region.bytes(frame).ok()?)?;
    if meta.needs_checksum {
        // It is in the headers that are taken off.
        set_meta(region, frame, &Meta { time_ns: meta.time_ns, ..Meta::default() });
    }
    region.set_len(frame, payload.end as u32).ok()?;
    region.trim_front(frame, payload.start).ok()?;
    Some(headers)
}

impl Front for Packet {
    fn len_bytes(&self) -> usize {
        self.len()
    }

    fn finish(&mut self) -> u64 {
        let (pool, frame) = self.parts();
        finish(pool.region(), frame)
    }

    fn complete(&mut self) {
        let (pool, frame) = self.parts();
        complete(pool.region(), frame);
    }

    fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
        Packet::prepend(self, bytes)
    }

    fn request(&mut self, request: &GsoRequest, transport_at: u16) {
        self.set_meta(&requested(self.meta(), request, transport_at));
    }
}

impl Front for PacketMut<'_> {
    fn len_bytes(&self) -> usize {
        self.len()
    }

    fn finish(&mut self) -> u64 {
        finish(self.region, self.frame)
    }

    fn complete(&mut self) {
        complete(self.region, self.frame);
    }

    fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
        prepend(self.region, self.frame, bytes)
    }

    fn request(&mut self, request: &GsoRequest, transport_at: u16) {
        let meta = self.region.meta(self.frame).unwrap_or_default();
        self.set_meta(&requested(meta, request, transport_at));
    }
}

fn extend_back<'a>(region: &'a Region, frame: &'a mut Frame, bytes: usize) -> Result<&'a mut [u8], NoRoom> {
    let before = frame.len_bytes() as usize;
    let len_bytes = u32::try_from(before.saturating_add(bytes)).unwrap_or(u32::MAX);
    region.set_len(frame, len_bytes).map_err(|error| {
        let max_bytes = if let MemError::TooLong { max_bytes, .. } = error { max_bytes as usize } else { 0 };
        NoRoom { bytes, max_bytes: max_bytes.saturating_sub(before) }
    })?;
    let added = region.bytes_mut(frame).unwrap_or_default().get_mut(before..).unwrap_or_default();
    added.fill(0);
    Ok(added)
}

pub(super) fn prepend<'a>(
    region: &'a Region, frame: &'a mut Frame, bytes: usize,
) -> Result<&'a mut [u8], NoRoom> {
    region.prepend(frame, bytes).map_err(|error| no_room(bytes, &error))?;
    Ok(&mut region.bytes_mut(frame).unwrap_or_default()[..bytes])
}

/// The error of a move of the start.
pub(super) fn no_room(bytes: usize, error: &MemError) -> NoRoom {
    let max_bytes = if let MemError::TooLong { max_bytes, .. } = error { *max_bytes as usize } else { 0 };
    NoRoom { bytes, max_bytes }
}

/// See [`Front::finish`].
fn finish(region: &Region, frame: &mut Frame) -> u64 {
    complete(region, frame);
    let mut sum = ChunkSum::default();
    region.chunks(frame).into_iter().flatten().for_each(|chunk| sum.add(chunk));
    sum.sum()
}

/// See [`Front::complete`].
fn complete(region: &Region, frame: &mut Frame) {
    let meta = region.meta(frame).unwrap_or_default();
    if meta.needs_checksum || meta.gso_bytes != 0 {
        let complete = |frame: &mut Frame| complete_frame(region, frame).unwrap_or(false);
        // A checksum that has no place stays with the device, which fails the packet with the reason.
        let is_done = !meta.needs_checksum || keeping_times(region, frame, complete);
        let meta = Meta { gso_bytes: 0, gso_kind: 0, needs_checksum: !is_done, ..meta };
        set_meta(region, frame, &meta);
    }
}

/// The metadata of a packet that is to be cut as `request` says.
fn requested(meta: Meta, request: &GsoRequest, transport_at: u16) -> Meta {
    Meta {
        gso_bytes: request.segment_bytes,
        gso_kind: request.kind,
        needs_checksum: request.is_checksum_partial,
        checksum_start: transport_at,
        checksum_offset: UDP_OFFSET as u16,
        ..meta
    }
}
