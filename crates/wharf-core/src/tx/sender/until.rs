//! Calls that wait until an [`Instant`]: several calls of a loop have one end.

use super::{Sender, Spread};
use crate::pool::Burst;
use crate::tx::queue::QueueError;
use std::time::{Duration, Instant};

/// Returns the time left until `end`: none if it has passed.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

impl Sender {
    /// Works like [`Sender::fill_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Sender::fill_within`].
    pub fn fill_until(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, end: Instant,
    ) -> Result<usize, QueueError> {
        self.fill_within(burst, count, len_bytes, left(end))
    }

    /// Works like [`Sender::wait_for_memory_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Sender::wait_for_memory_within`].
    pub fn wait_for_memory_until(&mut self, end: Instant) -> Result<(), QueueError> {
        self.wait_for_memory_within(left(end))
    }

    /// Works like [`Sender::send_within`], until `end`.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # fn send(sender: &mut wharf_core::sender::Sender) -> Result<(), wharf_core::queue::QueueError> {
    /// let (mut burst, end) = (sender.burst(64), Instant::now() + Duration::from_millis(5));
    /// while sender.fill_until(&mut burst, 64, 100, end)? > 0 {
    ///     sender.send_until(&mut burst, end)?; // `TimedOut` at the same time, whichever call waits
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Sender::send_within`].
    pub fn send_until(&mut self, burst: &mut Burst, end: Instant) -> Result<(), QueueError> {
        self.send_within(burst, left(end))
    }

    /// Works like [`Sender::send_or_drop_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Sender::send_or_drop_within`].
    pub fn send_or_drop_until(&mut self, burst: &mut Burst, end: Instant) -> Result<usize, QueueError> {
        self.send_or_drop_within(burst, left(end))
    }
}

impl Spread {
    /// Works like [`Spread::fill_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Spread::fill_within`].
    pub fn fill_until(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, end: Instant,
    ) -> Result<usize, QueueError> {
        self.fill_within(burst, count, len_bytes, left(end))
    }

    /// Works like [`Spread::wait_for_memory_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Sender::wait_for_memory_within`].
    pub fn wait_for_memory_until(&mut self, end: Instant) -> Result<(), QueueError> {
        self.wait_for_memory_within(left(end))
    }

    /// Works like [`Spread::send_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Spread::send_within`].
    pub fn send_until(&mut self, burst: &mut Burst, end: Instant) -> Result<(), QueueError> {
        self.send_within(burst, left(end))
    }

    /// Works like [`Spread::send_or_drop_within`], until `end`.
    ///
    /// # Errors
    /// The errors of [`Spread::send_or_drop_within`].
    pub fn send_or_drop_until(&mut self, burst: &mut Burst, end: Instant) -> Result<usize, QueueError> {
        self.send_or_drop_within(burst, left(end))
    }
}
