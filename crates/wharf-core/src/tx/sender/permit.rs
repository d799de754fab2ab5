//! Readiness: whether a sender may send now, and room kept for it. A sender asks without joining the waiters while there is
//! room.
//!
//! Only this sender puts frames into its lane. So room in the lane, with the right to send past a band that fills up
//! meanwhile (the turn of a sender that was served), is room that no other sender takes.

use super::wait::{TaskWait, poll_wait};
use super::{Burst, SendError, Sender, Sent, watch};
use crate::tx::queue::waiters::Need;
use crate::wait::Wait;
use std::future::poll_fn;
use std::slice::from_mut;
use std::task::{Context, Poll, ready};

/// The right of a sender to send some packets without waiting, whatever other senders do meanwhile. Dropping it gives the
/// rest up.
#[derive(Debug)]
#[must_use = "dropping it gives the room up"]
pub struct Permit<'a> {
    sender: &'a mut Sender,
}

impl Permit<'_> {
    /// Returns the number of packets that it still permits.
    pub fn left(&self) -> usize {
        self.sender.turn_left()
    }

    /// Works like [`Sender::fill`].
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub fn fill(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, wait: impl Into<Wait>,
    ) -> Result<usize, SendError> {
        self.sender.fill(burst, count, len_bytes, wait)
    }

    /// Sends the packets of `burst` without waiting: all that it still permits, and others only if there is
    /// room.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn send(&mut self, burst: &mut Burst) -> Result<Sent, SendError> {
        self.sender.past_share(|sender| sender.send(burst, Wait::Never))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.sender.give_turn_up();
    }
}

impl Sender {
    /// True if [`Sender::send`] without waiting would send a packet of any band now, or fail for another
    /// reason than room. Never waits; runs a queue without a poller, if that is what it takes.
    pub fn is_ready(&mut self) -> bool {
        let is_closed = |sender: &Self| sender.shared.is_closed();
        self.has_room(1) || is_closed(self) || (!self.is_driven() && self.drive() && self.has_room(1))
    }

    /// Asks whether the sender is ready: the next [`Sender::send`] without waiting then sends at least one
    /// packet. Joins the waiters only if there is no room; the task is then woken. A later call goes on
    /// with the same place, and dropping the sender gives it up.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: the place is kept for a later call.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Ended`], [`SendError::Cancelled`].
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let mut wait = self.ready_wait.take().filter(|wait| wait.need != Need::Memory);
        let polled = self.poll_room(context, 1, &mut wait);
        self.ready_wait = wait;
        polled
    }

    /// Waits as a task until there is room for `count` packets, or half a lane of them (128 by default) if these are fewer,
    /// and keeps it. Joins the waiters only if there is none.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: its place among the waiters goes to the next one. So may the
    /// permit: the room that is left goes to others.
    ///
    /// ```
    /// # use wharf_core::{pool::Burst, sender::{SendError, Sender}, wait::Wait};
    /// # async fn send(sender: &mut Sender, burst: &mut Burst) -> Result<(), SendError> {
    /// let mut permit = sender.reserve(32).await?; // the packets that are made next have room
    /// let room = permit.left();
    /// permit.fill(burst, room, 100, Wait::Never)?;
    /// assert_eq!(permit.send(burst)?.left, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Ended`], [`SendError::Cancelled`].
    pub async fn reserve(&mut self, count: usize) -> Result<Permit<'_>, SendError> {
        // A sender is served once half of its lane is free.
        let count = count.clamp(1, (self.lane.capacity() / 2).max(1));
        let mut wait = None;
        poll_fn(|context| self.poll_room(context, count, &mut wait)).await?;
        Ok(Permit { sender: self })
    }

    /// Gives the sender a turn of `count` packets once there is room for them.
    fn poll_room(
        &mut self, context: &mut Context<'_>, count: usize, wait: &mut Option<TaskWait>,
    ) -> Poll<Result<(), SendError>> {
        while wait.is_some() || !self.has_room(count) {
            let need = match wait {
                Some(wait) => wait.need,
                None => self.room_need(count),
            };
            ready!(poll_wait(from_mut(self), context, need, wait))?;
        }
        if self.shared.is_closed() {
            return Poll::Ready(Err(self.shared.closed_error()));
        }
        self.turn_end = self.counters.packets.get() + count as u64;
        Poll::Ready(Ok(()))
    }

    /// True if the lane takes `count` packets, and neither full bands nor the sender's limit hold them back.
    /// A turn that is left goes past full bands, not past the limit.
    fn has_room(&mut self, count: usize) -> bool {
        let is_open = self.full_bands() == 0 || self.turn_left() >= count;
        self.lane.room() >= count && is_open && !self.is_held()
    }

    fn room_need(&mut self, frames: usize) -> Need {
        self.held().unwrap_or_else(|| Need::Space { band: self.full_band().unwrap_or(0), frames })
    }

    /// Ends the turn, and lets the owner serve a sender that waits for the room.
    fn give_turn_up(&mut self) {
        if self.turn_left() > 0 && self.full_bands() != 0 {
            self.biased.release(self.shared.cell());
            watch::pass_on(&self.shared);
        }
        self.turn_end = 0;
    }
}
