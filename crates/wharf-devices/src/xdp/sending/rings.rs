//! `Rings`: the transmit and completion rings, and the frames between them.
//!
//! There are never more descriptors out than either ring has, so there is room for every completion.

use super::super::memory::PIECE_BYTES;
use super::super::table::{NotHeld, Table, TxStatus, pieces};
use std::sync::Arc;
use wharf_mem::{Batch, Frame, MemError, Region};
use wharf_sys::xdp::{
    Consumer, Descriptor, PACKET_CONTINUES, PACKET_HAS_METADATA, Producer, TX_METADATA_BYTES, TxMetadataRoom,
};

/// Most descriptors of one packet: the kernel puts that many into one buffer of its own.
pub(in super::super) const DESCRIPTORS_MAX: usize = 17;

#[derive(Debug)]
pub struct Rings {
    transmit: Producer<Descriptor>,
    completion: Consumer<u64>,
    table: Table,
    region: Arc<Region>,
    /// Descriptors posted whose completion has not been seen.
    out: u32,
    /// Most descriptors that may be out.
    out_max: u32,
    /// Index of the first descriptor that the kernel is not known to have taken: it may report that late.
    taken: u32,
    multi_buffer: bool,
    /// The room for metadata in front of each packet, which must be the packet's own.
    metadata: Option<TxMetadataRoom>,
}

/// Reason that a frame was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TxReject {
    /// There is no room for it now.
    Full,
    Failed(&'static str),
}

impl Rings {
    pub fn new(
        transmit: Producer<Descriptor>, completion: Consumer<u64>, region: Arc<Region>, multi_buffer: bool,
        completions: u32,
    ) -> Self {
        let (out_max, taken) = (transmit.entries().min(completions), transmit.next());
        let table = Table::new(&region);
        let metadata = None;
        Self { transmit, completion, table, region, out: 0, out_max, taken, multi_buffer, metadata }
    }

    /// Sets the room for metadata that the memory was registered with.
    #[must_use]
    pub fn with_metadata(self, metadata: Option<TxMetadataRoom>) -> Self {
        Self { metadata, ..self }
    }

    /// Returns the room for metadata in front of packets.
    pub(super) fn metadata(&self) -> Option<TxMetadataRoom> {
        self.metadata
    }

    /// Returns true if frames may ask for the time at which they are sent.
    #[inline]
    pub(super) fn stamps(&self) -> bool {
        self.metadata.is_some_and(|room| room.timestamps)
    }

    #[inline]
    pub(super) fn gathers(&self) -> bool {
        self.multi_buffer
    }

    /// Returns the number of descriptors that may be out.
    pub(super) fn entries(&self) -> u32 {
        self.out_max
    }

    /// Returns the number of frames inside.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.table.held()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.out >= self.out_max
    }

    /// Returns the number of descriptors that may be posted now.
    pub(super) fn room(&self) -> usize {
        (self.out_max - self.out.min(self.out_max)) as usize
    }

    /// Posts frames from the front of `batch` while there is room and `wants` accepts them. `wants` accepts
    /// only frames of one buffer and at most one piece.
    #[inline(always)]
    pub(super) fn post_while(&mut self, batch: &mut Batch, wants: impl Fn(&Frame) -> bool) {
        let Self { transmit, table, region, .. } = self;
        let room = self.out_max.saturating_sub(self.out).min(transmit.room()) as usize;
        let number = region.number();
        let wanted =
            batch.frames().iter().take(room).take_while(|frame| frame.pool() == number && wants(frame));
        let first = transmit.next();
        transmit.put_all(wanted.map(|frame| {
            // Cannot fail: the frame is of this pool.
            let at = region.offset_bytes(frame).unwrap_or_default();
            Descriptor { addr: at as u64, len: frame.len_bytes(), options: 0 }
        }));
        let put = transmit.next().wrapping_sub(first);
        let mut each = 0..put;
        batch.take_while(|_| each.next().is_some(), |frame| table.hold(frame));
        self.out += put;
    }

    fn put(&mut self, at: usize, len: usize, options: u32) -> bool {
        let is_put = self.transmit.put(Descriptor { addr: at as u64, len: len as u32, options });
        self.out += u32::from(is_put);
        is_put
    }

    /// Returns the number of descriptors that a frame takes.
    pub(super) fn descriptors(&self, frame: &Frame) -> Result<usize, &'static str> {
        let chunks = self.region.chunks(frame).map_err(|_: MemError| "foreign-pool")?;
        // The kernel would take the frame from the ring, and never give it back.
        if self.metadata.is_some()
            && self.region.headroom_bytes(frame).unwrap_or_default() < TX_METADATA_BYTES
        {
            return Err("no-headroom");
        }
        let count = chunks.map(|chunk| pieces(chunk.len())).sum::<usize>();
        let most = if self.multi_buffer { DESCRIPTORS_MAX } else { 1 };
        if count > most { Err("too-many-chunks") } else { Ok(count) }
    }

    /// Posts a frame of any shape, if there is room for its descriptors. `metadata` says if they are in front of it.
    #[cold]
    pub(super) fn post_chain(&mut self, frame: Frame, metadata: bool) -> Result<(), (TxReject, Frame)> {
        let region = self.region.clone();
        let Ok(mut left) = self.descriptors(&frame) else {
            return Err((TxReject::Failed("foreign-pool"), frame));
        };
        if left > self.room().min(self.transmit.room() as usize) {
            return Err((TxReject::Full, frame));
        }
        let mut first = if metadata { PACKET_HAS_METADATA } else { 0 };
        if left == 1 {
            let at = region.offset_bytes(&frame).unwrap_or_default();
            self.put(at, frame.len_bytes() as usize, first);
            self.table.hold(frame);
            return Ok(());
        }
        let (start, mut buffers) = (region.mapping().start().as_ptr() as usize, Vec::with_capacity(left));
        for chunk in region.chunks(&frame).into_iter().flatten() {
            let at = chunk.as_ptr() as usize - start;
            buffers.extend(region.buffer_at(at).map(|(index, _)| (index, chunk.len())));
            for (piece, bytes) in chunk.chunks(PIECE_BYTES).enumerate() {
                left -= 1;
                let options = if left > 0 { PACKET_CONTINUES } else { 0 };
                let options = options | std::mem::take(&mut first);
                let is_put = self.put(at + piece * PIECE_BYTES, bytes.len(), options);
                debug_assert!(is_put, "there is room for all of them");
            }
        }
        self.table.hold_chain(frame, buffers.into_iter());
        Ok(())
    }

    /// Shows the kernel all frames posted.
    #[inline]
    pub(super) fn publish(&self) {
        self.transmit.publish();
    }

    /// Returns the number of descriptors that the kernel has not taken.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.transmit.waiting()
    }

    /// Returns true if the kernel looks at the transmit ring only when it is called.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.transmit.needs_wakeup()
    }

    /// Reads the kernel's position. Returns true if it has taken anything since the last read.
    #[inline]
    pub(super) fn look(&mut self) -> bool {
        let taken = self.transmit.taken();
        let is_ahead = taken.wrapping_sub(self.taken) as i32 > 0;
        if is_ahead {
            self.taken = taken;
        }
        is_ahead
    }

    /// Sets `status` for the last frame that the kernel took: it has just reported that the interface dropped
    /// it.
    ///
    /// The kernel reports its position only with the first frame that is sent. So if it has not moved, the
    /// frame is the one behind those that are known to have been taken.
    #[cold]
    pub(super) fn dropped(&mut self, status: TxStatus) {
        let last = if self.look() {
            self.taken.wrapping_sub(1)
        } else {
            let mut last = self.taken;
            while last != self.transmit.next() && self.transmit.entry(last).options & PACKET_CONTINUES != 0 {
                last = last.wrapping_add(1);
            }
            if last == self.transmit.next() {
                return;
            }
            self.taken = last.wrapping_add(1);
            last
        };
        let at = usize::try_from(self.transmit.entry(last).addr).unwrap_or(usize::MAX);
        if let Some((index, _)) = self.region.buffer_at(at) {
            self.table.mark_failed(index, status);
        }
    }

    /// Takes up to `room` frames that have come back, and reduces `room` by them; `each` gets them. The
    /// kernel may then write completions again where they have been read.
    #[inline(always)]
    pub(super) fn take_done(
        &mut self, room: &mut usize, mut each: impl FnMut(Frame, TxStatus),
    ) -> Result<(), NotHeld> {
        let mut result = Ok(());
        let Self { completion, table, region, .. } = self;
        let (mut left, mut count) = (*room, 0);
        if left > 0 {
            completion.take_while(|addr| {
                match done(region, table, addr) {
                    Ok(None) => count += 1,
                    Ok(Some((frame, status))) => {
                        count += 1;
                        left -= 1;
                        each(frame, status);
                    }
                    Err(not_held) => result = Err(not_held),
                }
                left > 0 && result.is_ok()
            });
        }
        (*room, self.out) = (left, self.out.saturating_sub(count));
        self.completion.release();
        result
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.visit(see);
    }

    pub(super) fn into_held(self) -> impl Iterator<Item = Frame> {
        self.table.into_held()
    }
}

/// Completes the descriptor at `addr`. Returns the frame if that was its last.
#[inline(always)]
fn done(region: &Region, table: &mut Table, addr: u64) -> Result<Option<(Frame, TxStatus)>, NotHeld> {
    let at = usize::try_from(addr).unwrap_or(usize::MAX);
    let (index, start) = region.buffer_at(at).ok_or(NotHeld(u32::MAX))?;
    if at == start
        && let Some(frame) = table.complete_single(index)
    {
        return Ok(Some(frame));
    }
    done_part(region, table, index, at)
}

/// Completes the descriptor of a piece, or of a frame whose start was moved.
#[cold]
fn done_part(
    region: &Region, table: &mut Table, index: u32, at: usize,
) -> Result<Option<(Frame, TxStatus)>, NotHeld> {
    let start = match table.head(index) {
        Some(frame) => region.offset_bytes(frame).ok(),
        None => region.buffer_at(at).map(|(_, start)| start),
    };
    let behind = start.and_then(|start| at.checked_sub(start)).ok_or(NotHeld(index))?;
    if !behind.is_multiple_of(PIECE_BYTES) {
        return Err(NotHeld(index));
    }
    table.complete(index, behind / PIECE_BYTES)
}
