//! `Sending`: the transmit side, over the kernel or a model of it.
//!
//! Assumptions: one caller at a time; the kernel copies a frame within the call, so that a frame is done once
//! it is taken. Goal: as few calls and messages as possible, nothing lost or reordered whatever the kernel
//! rejects, and nothing sent twice.
//!
//! Messages that the kernel did not take stay at the front of the batch, and the next call finds out why.
//! `SendErrors` then says whether to wait, try again, send one by one, or fail the frame.

use super::addressing::Addressing;
use super::joining::Joining;
use super::plan::{FRAMES_MAX, JOINED_BYTES, PIECES_MAX, Plan, Position};
use super::send_errors::EADDRNOTAVAIL;
use super::send_errors::{Action, SendErrors};
use crate::iface::TxBook;
use std::sync::Arc;
use std::{io, iter};
use wharf_core::device::{Completions, DeviceError, Transmitted};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Region};
use wharf_sys::errno::EINVAL;
use wharf_sys::udp::{ErrorReport, Message, Outgoing, UdpSocket, Writer};

/// Frames held between two reaps.
pub(super) const RING_FRAMES: usize = BATCH_FRAMES_MAX;

/// The kernel, or a model of it.
pub trait Kernel {
    /// Sends the messages. Returns the number taken, or the error at the first one.
    fn send(&mut self, messages: &mut Writer<'_, '_>) -> io::Result<usize>;

    /// Returns the next report of an earlier datagram; `None` if there is no further one.
    fn next_report(&mut self) -> Option<ErrorReport> {
        None
    }
}

impl Kernel for UdpSocket {
    #[inline]
    fn send(&mut self, messages: &mut Writer<'_, '_>) -> io::Result<usize> {
        messages.send(self)
    }

    fn next_report(&mut self) -> Option<ErrorReport> {
        UdpSocket::next_report(self)
    }
}

#[derive(Debug)]
pub struct Sending {
    region: Option<Arc<Region>>,
    outgoing: Outgoing,
    plan: Plan,
    addressing: Addressing,
    joining: Joining,
    pub(super) errors: SendErrors,
    /// Frames at the front that are sent one by one.
    apart: usize,
    /// Payload bytes of the first frame that have been sent, if it is a super-packet.
    begun_bytes: usize,
    pub(super) book: TxBook,
}

impl Sending {
    pub fn new(device: &str, addressing: Addressing, joins: bool) -> Self {
        Self {
            region: None,
            outgoing: Outgoing::new(FRAMES_MAX, PIECES_MAX, JOINED_BYTES),
            plan: Plan::new(),
            addressing,
            joining: Joining::new(joins),
            errors: SendErrors::new(device),
            apart: 0,
            begun_bytes: 0,
            book: TxBook::new(RING_FRAMES),
        }
    }

    pub fn attach(&mut self, region: Arc<Region>) {
        self.region = Some(region);
    }

    pub fn outstanding(&self) -> usize {
        self.book.len()
    }

    /// Returns the number of frames that it can still take.
    #[inline]
    fn room(&self) -> usize {
        RING_FRAMES.saturating_sub(self.outstanding())
    }

    /// Sends frames from the front of `batch` while there is room. The call is the doorbell, so none is left
    /// out.
    #[inline]
    pub fn transmit(&mut self, kernel: &mut impl Kernel, batch: &mut Batch) -> Transmitted {
        let mut doorbell = false;
        loop {
            let count = batch.len().min(self.room());
            if count == 0 {
                return Transmitted { doorbell, stopped: self.room() == 0 };
            }
            match self.send_some(kernel, batch, count) {
                Ok(sent) => doorbell |= sent > 0,
                Err(Wait) => return Transmitted { doorbell, stopped: true },
            }
        }
    }

    /// Makes one call, with the first of `count` frames. Returns the number of messages sent.
    #[inline]
    fn send_some(
        &mut self, kernel: &mut impl Kernel, batch: &mut Batch, count: usize,
    ) -> Result<usize, Wait> {
        let Self { region, outgoing, plan, addressing, joining, .. } = self;
        let Some(region) = region else {
            self.fail_first(batch, count, "not-attached");
            return Ok(0);
        };
        let mut writer = outgoing.begin();
        let begun = (self.apart, self.begun_bytes);
        plan.fill(&mut writer, &batch.frames()[..count], region, addressing, joining, begun);
        let first = (!writer.is_empty()).then(|| writer.written(0).message);
        let answer = if writer.is_empty() { Ok(0) } else { kernel.send(&mut writer) };
        let is_joined = first.is_some_and(|first| first.segment_bytes.is_some());
        let sent = *answer.as_ref().unwrap_or(&0);
        self.take(batch, self.plan.before(sent));
        match answer {
            Err(error) => {
                let earlier = self.errors.note_reports(iter::from_fn(|| kernel.next_report()));
                self.handle(batch, error, &first.unwrap_or_default(), earlier > 0)
            }
            Ok(sent) => {
                if sent > 0 {
                    self.errors.over();
                }
                if sent > 0 && is_joined {
                    self.joining.went_well();
                }
                Ok(sent)
            }
        }
    }

    /// Handles the rejection of `first`, whose frames are at the front of the batch; `is_earlier` if reports of earlier
    /// datagrams came with it.
    #[cold]
    fn handle(
        &mut self, batch: &mut Batch, error: io::Error, first: &Message, is_earlier: bool,
    ) -> Result<usize, Wait> {
        if matches!(error.raw_os_error(), Some(EINVAL | EADDRNOTAVAIL)) && first.from.is_some() {
            self.addressing.forget();
        }
        let action = match is_earlier {
            true => self.errors.after_reports(error),
            false => self.errors.action(error, first.segment_bytes.is_some()),
        };
        match action {
            Action::Wait => return Err(Wait),
            Action::Again => {}
            Action::Apart => {
                let frames = self.plan.before(1).frames - self.plan.before(0).frames;
                // At least a part of one.
                self.apart = frames.max(1);
                self.joining.refused(first.segment_bytes.unwrap_or(0).into());
            }
            Action::Fail(reason) => self.fail_first(batch, 1, reason),
        }
        Ok(0)
    }

    /// Moves the frames of `batch` before `until`: they have been sent, or cannot be.
    #[inline]
    fn take(&mut self, batch: &mut Batch, until: Position) {
        let count = until.frames;
        self.begun_bytes = until.bytes;
        self.apart = self.apart.saturating_sub(count);
        self.joining.sent(count);
        let Self { plan, book, .. } = self;
        let mut taken = 0;
        for &(at, reason) in plan.unfit_of_first(count) {
            book.sent_first(batch, at - taken);
            book.fail(batch.pop(), reason);
            taken = at + 1;
        }
        book.sent_first(batch, count - taken);
    }

    #[cold]
    fn fail_first(&mut self, batch: &mut Batch, count: usize, reason: &'static str) {
        (self.apart, self.begun_bytes) = (self.apart.saturating_sub(count), 0);
        self.book.fail((0..count).map_while(|_| batch.pop()), reason);
    }

    #[inline]
    pub fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        self.book.reap(budget, into);
        self.errors.take_error()
    }

    /// Works like [`Sending::transmit`], once closed.
    pub fn refuse(&mut self, batch: &mut Batch) -> Transmitted {
        self.fail_first(batch, usize::MAX, "closed");
        Transmitted::default()
    }
}

/// Marker: there is no room now.
struct Wait;
