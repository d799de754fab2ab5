//! `Writer`: writes one frame into the driver's buffers, in the form that the driver takes.

use super::super::vring::{Agreed, DESCRIPTORS_AT_A_TIME};
use crate::virtio::{Chain, DeviceRing, Memory, RingError, Window, feature};
use crate::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use wharf_mem::{Frame, Meta, Region};
use wharf_packet::checksum;
use wharf_packet::gso::GsoPlan;

/// Header and number of buffers.
const HEADER_BYTES_MAX: usize = VNET_HEADER_BYTES + size_of::<u16>();

/// Outcome for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Done,
    /// There are not enough buffers now: those of so many descriptors ([`Token::descriptors`]) are too few.
    ///
    /// [`Token::descriptors`]: crate::virtio::Token::descriptors
    Full(u16),
    /// The frame can never be delivered.
    Failed(&'static str),
    /// The driver breaks the rules.
    Broken(RingError),
}

/// Source of buffers.
pub(super) struct Buffers<'a, R> {
    pub(super) ring: &'a mut R,
    pub(super) memory: &'a Memory,
    pub(super) agreed: Agreed,
    pub(super) chain: &'a mut Chain,
    /// For buffers that are popped together; none once one was too short in this turn.
    pub(super) ahead: &'a mut [Chain],
    /// Descriptors that may still be followed in this turn.
    pub(super) left: u32,
}

/// Writes frames; keeps its buffers from one frame to the next.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// A frame in one piece, to be segmented or to have its checksum filled in.
    whole: Vec<u8>,
    segment: Vec<u8>,
    /// Buffers of a frame behind the first one.
    further: Vec<Chain>,
}

impl Writer {
    /// Copies `frame` into buffers of the driver; `segments` of a super-packet have been copied before.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, region: &Region, frame: &Frame,
        segments: &mut usize,
    ) -> Delivery {
        if frame.has_meta() {
            return self.deliver_with_care(to, region, frame, segments);
        }
        match region.bytes(frame) {
            Ok(bytes) => self.put(to, VnetHeader::default(), bytes.len(), [bytes].into_iter()),
            Err(_) => Delivery::Failed("foreign-pool"),
        }
    }

    /// Handles chains, and frames with requests.
    #[inline(never)]
    fn deliver_with_care(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, region: &Region, frame: &Frame,
        segments: &mut usize,
    ) -> Delivery {
        let (Ok(meta), Ok(chunks)) = (region.meta(frame), region.chunks(frame)) else {
            return Delivery::Failed("foreign-pool");
        };
        let is_super = meta.gso_bytes > 0;
        let mut as_it_is = if is_super {
            to.agreed.takes(meta.gso_kind)
        } else {
            !meta.needs_checksum || to.agreed.has(feature::GUEST_CSUM)
        };
        let len = frame.len_bytes() as usize;
        let header = if as_it_is && (is_super || meta.needs_checksum) {
            let mut start = [0; START_BYTES];
            let mut filled = 0;
            for chunk in region.chunks(frame).into_iter().flatten() {
                let count = chunk.len().min(START_BYTES - filled);
                start[filled..filled + count].copy_from_slice(&chunk[..count]);
                filled += count;
            }
            match VnetHeader::to_send(&start[..filled], len, &meta) {
                Ok(header) => header,
                Err(unfit) => return Delivery::Failed(unfit.reason()),
            }
        } else {
            VnetHeader::default()
        };
        as_it_is &= !header.has_ecn || to.agreed.has(feature::GUEST_ECN);
        if !as_it_is {
            self.whole.clear();
            chunks.for_each(|chunk| self.whole.extend_from_slice(chunk));
            return self.deliver_changed(to, &meta, segments);
        }
        // Whole, although its first segments may have gone before its driver agreed upon that.
        *segments = 0;
        self.put(to, header, len, chunks)
    }

    /// Writes the frame in `whole`, segmented or with its checksum filled in.
    fn deliver_changed(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, meta: &Meta, segments: &mut usize,
    ) -> Delivery {
        if meta.gso_bytes == 0 {
            let mut whole = std::mem::take(&mut self.whole);
            let filled = checksum::complete_transport(
                &mut whole,
                meta.checksum_start.into(),
                meta.checksum_offset.into(),
            );
            let delivery = match filled {
                true => self.put_plain(to, &whole),
                false => Delivery::Failed("unfinished-checksum"),
            };
            self.whole = whole;
            return delivery;
        }
        let Ok(cut) = GsoPlan::new(&self.whole, meta.gso_kind, meta.gso_bytes) else {
            return Delivery::Failed("gso-header");
        };
        let mut segment = std::mem::take(&mut self.segment);
        let mut delivery = Delivery::Done;
        while *segments < cut.segments() && delivery == Delivery::Done {
            segment.resize(cut.segment_bytes(*segments), 0);
            cut.write(&self.whole, *segments, &mut segment);
            delivery = self.put_plain(to, &segment);
            *segments += usize::from(delivery == Delivery::Done);
        }
        self.segment = segment;
        if !matches!(delivery, Delivery::Full(_) | Delivery::Broken(_)) {
            *segments = 0;
        }
        delivery
    }

    fn put_plain(&mut self, to: &mut Buffers<'_, impl DeviceRing>, bytes: &[u8]) -> Delivery {
        self.put(to, VnetHeader::default(), bytes.len(), [bytes].into_iter())
    }

    /// Puts `header` and the `len` bytes of `chunks` into as many buffers as it takes.
    #[inline(always)]
    fn put<'a>(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, header: VnetHeader, len: usize,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> Delivery {
        match to.ring.pop(to.memory, to.chain) {
            Ok(true) => {}
            Ok(false) => return Delivery::Full(0),
            Err(error) => return Delivery::Broken(error),
        }
        let (header_bytes, header_of_one) = (to.agreed.header_bytes(), bytes_of(&header));
        let Ok(total) = u32::try_from(header_bytes + len) else {
            to.ring.undo_pop(to.chain.token());
            return Delivery::Failed("too-long");
        };
        if to.chain.descriptors() > 1 {
            to.left = to.left.saturating_sub(to.chain.descriptors());
        }
        if to.chain.writable_bytes() < total {
            return self.put_in_several(to, header_of_one, total, chunks);
        }
        let written = match to.chain.only_writable(to.memory) {
            Some(window) => put_in_one(&window, &header_of_one, header_bytes, chunks),
            None => {
                let at = to.chain.copy_in(to.memory, 0, &header_of_one[..header_bytes]) as u32;
                chunks.fold(at, |at, chunk| at + to.chain.copy_in(to.memory, at, chunk) as u32)
            }
        };
        put_used(to.ring, to.memory, to.chain, written);
        Delivery::Done
    }

    /// Works like [`Writer::put`], where the first buffer, `chain`, is too short.
    #[inline(never)]
    fn put_in_several<'a>(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, mut header: [u8; HEADER_BYTES_MAX], total: u32,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> Delivery {
        let header_bytes = to.agreed.header_bytes();
        if !to.agreed.has(feature::MRG_RXBUF) || (to.chain.writable_bytes() as usize) < header_bytes {
            to.ring.undo_pop(to.chain.token());
            return Delivery::Failed("too-long");
        }
        let (count, short) = self.gather(to, to.chain.writable_bytes(), total);
        if let Some(short) = short {
            self.further[..count].iter().rev().for_each(|further| to.ring.undo_pop(further.token()));
            to.ring.undo_pop(to.chain.token());
            return short;
        }
        let buffers = u16::try_from(1 + count).unwrap_or(u16::MAX);
        header[VNET_HEADER_BYTES..].copy_from_slice(&buffers.to_le_bytes());
        let Buffers { ring, memory, chain, .. } = to;
        let mut all = std::iter::once(&**chain).chain(&self.further[..count]);
        let Some(mut buffer) = all.next() else { return Delivery::Full(0) };
        let mut at = buffer.copy_in(memory, 0, &header[..header_bytes]) as u32;
        for mut chunk in chunks {
            loop {
                let copied = buffer.copy_in(memory, at, chunk);
                (at, chunk) = (at + copied as u32, &chunk[copied..]);
                if chunk.is_empty() {
                    break;
                }
                put_used(*ring, memory, buffer, at);
                let Some(next) = all.next() else { return Delivery::Failed("too-long") };
                (buffer, at) = (next, 0);
            }
        }
        put_used(*ring, memory, buffer, at);
        // None are left, unless a frame is shorter than it said.
        all.for_each(|rest| ring.put_used(rest.token(), 0));
        Delivery::Done
    }

    /// Pops buffers until there is room for `total` bytes, of which there is `room` already. Returns their
    /// number, or the error: too many descriptors hold too little.
    fn gather(
        &mut self, to: &mut Buffers<'_, impl DeviceRing>, mut room: u32, total: u32,
    ) -> (usize, Option<Delivery>) {
        let (mut count, mut descriptors) = (0, to.chain.descriptors());
        let mut taken = to.chain.token().descriptors();
        while room < total {
            // All buffers of a ring would not suffice.
            if count + 1 >= usize::from(to.ring.size()) || descriptors > DESCRIPTORS_AT_A_TIME {
                return (count, Some(Delivery::Failed("too-long")));
            }
            if self.further.len() == count {
                self.further.push(Chain::new());
            }
            let next = &mut self.further[count];
            match to.ring.pop(to.memory, next) {
                Ok(true) => {
                    (room, count) = (room.saturating_add(next.writable_bytes()), count + 1);
                    descriptors += next.descriptors();
                    taken = taken.saturating_add(next.token().descriptors());
                    to.left = to.left.saturating_sub(next.descriptors());
                }
                Ok(false) => return (count, Some(Delivery::Full(taken))),
                Err(error) => return (count, Some(Delivery::Broken(error))),
            }
        }
        (count, None)
    }
}

/// Copies frames without metadata, from the first of `frames` on, into buffers of one descriptor each.
/// Returns the number of frames that were delivered: up to one that wants more care, or whose buffer does.
/// [`Writer::deliver`] has the next one.
#[inline(always)]
pub(super) fn deliver_plain(
    to: &mut Buffers<'_, impl DeviceRing>, region: &Region, frames: &[Frame],
) -> usize {
    let Buffers { ring, memory, agreed, ahead, .. } = to;
    let plain = frames.iter().take(ahead.len()).take_while(|frame| !frame.has_meta()).count();
    let popped = ring.pop_plain(memory, &mut ahead[..plain]);
    let (chains, header_bytes) = (&ahead[..popped], agreed.header_bytes());
    // The header, which most often is there already, may have a line of its own: the driver keeps that.
    let windows = chains.iter().filter_map(|chain| chain.only_writable(memory));
    windows.for_each(|window| window.prefetch_to_write(header_bytes));
    let header = bytes_of(&VnetHeader::default());
    for (at, (frame, chain)) in frames.iter().zip(chains).enumerate() {
        let bytes = region.bytes(frame).ok();
        let bytes = bytes.filter(|bytes| header_bytes + bytes.len() <= chain.writable_bytes() as usize);
        let Some((bytes, window)) = bytes.zip(chain.only_writable(memory)) else {
            chains[at..].iter().rev().for_each(|chain| ring.undo_pop(chain.token()));
            // The frames behind it are most likely as long: they are not popped for in vain.
            *ahead = &mut [];
            return at;
        };
        put_header(&window, &header, header_bytes);
        let written = header_bytes + if window.copy_in(header_bytes, bytes) { bytes.len() } else { 0 };
        put_used(*ring, memory, chain, written as u32);
    }
    popped
}

/// Writes header and frame to a buffer that has room for them. Returns the bytes written.
#[inline(always)]
fn put_in_one<'a>(
    window: &Window<'_>, header: &[u8; HEADER_BYTES_MAX], header_bytes: usize,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> u32 {
    put_header(window, header, header_bytes);
    chunks.fold(header_bytes as u32, |at, chunk| {
        at + if window.copy_in(at as usize, chunk) { chunk.len() as u32 } else { 0 }
    })
}

/// Writes a header to a buffer that has room for it. One that is still there from the last frame is left
/// alone: its cache line need not travel to the driver again.
#[inline(always)]
fn put_header(window: &Window<'_>, header: &[u8; HEADER_BYTES_MAX], header_bytes: usize) {
    // Bytes beyond a short header are equal, so that all of them are compared at once.
    let mut there = *header;
    let is_read = match header_bytes {
        HEADER_BYTES_MAX => window.copy_out(0, &mut there),
        short => window.copy_out(0, &mut there[..short]),
    };
    if !is_read || there != *header {
        window.copy_in(0, &header[..header_bytes]);
    }
}

/// Uses a buffer into which `written_bytes` were written.
#[inline(always)]
fn put_used(ring: &mut impl DeviceRing, memory: &Memory, chain: &Chain, written_bytes: u32) {
    if memory.is_logged() {
        chain.note_written(memory, written_bytes);
    }
    ring.put_used(chain.token(), written_bytes);
}

/// Returns a header's bytes, with the number of buffers: 1, also without the feature of several (section
/// 5.1.6.4.1).
#[inline(always)]
fn bytes_of(header: &VnetHeader) -> [u8; HEADER_BYTES_MAX] {
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[..VNET_HEADER_BYTES].copy_from_slice(&header.bytes());
    bytes[VNET_HEADER_BYTES] = 1;
    bytes
}
