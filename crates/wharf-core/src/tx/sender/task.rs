//! `AsyncSender`: a sender that waits as a future, on any runtime.
//!
//! A poller ([`crate::poller::Poller`]) or a dedicated owner should run the queue meanwhile. Without one, a waiting
//! task asks to be polled again at once, and runs the queue itself each time.

use super::Watch;
use super::{Burst, PoolError, QueueError, Sender};
use crate::tx::queue::waiters::Need;
use crate::wakeup::TaskWake;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A sender that waits as a future. Its futures may be dropped at any time: packets not sent stay in the burst, and
/// the place among the waiters goes to the next one.
#[derive(Debug)]
pub struct AsyncSender {
    sender: Sender,
}

impl AsyncSender {
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender }
    }

    /// The sender, for calls that do not wait: `try_send`, `fill`, counters.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// Turns back into a sender that waits as a thread.
    #[must_use]
    pub fn into_sender(self) -> Sender {
        self.sender
    }

    /// Makes an empty burst of the queue's pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.sender.burst(capacity)
    }

    /// Waits for memory, then adds one to `count` packets of `len_bytes` to a burst. Returns their number: 0 if the burst
    /// is full.
    ///
    /// # Errors
    /// A length too long ([`QueueError::Pool`]), [`QueueError::Closed`], [`QueueError::Dead`].
    pub async fn fill(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32,
    ) -> Result<usize, QueueError> {
        loop {
            match self.sender.fill(burst, count, len_bytes) {
                Err(PoolError::Exhausted { .. }) => self.wait(Need::Memory).await?,
                filled => return Ok(filled?),
            }
        }
    }

    /// Sends all packets of `burst` as there is space for them.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub async fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.sender.try_send(burst)?;
        while let Some(need) = self.sender.need(burst.batch_mut()) {
            self.wait(need).await?;
            self.sender.transmit_served(burst.batch_mut())?;
        }
        Ok(())
    }

    /// Waits until `try_send` would take at least one packet of any band.
    ///
    /// # Errors
    /// [`QueueError::Closed`], [`QueueError::Dead`].
    pub async fn ready(&mut self) -> Result<(), QueueError> {
        while let Some(held) = self.sender.held() {
            self.wait(held).await?;
        }
        match self.sender.full_band() {
            None => Ok(()),
            Some(band) => self.wait(Need::Space { band, frames: 1 }).await,
        }
    }

    async fn wait(&mut self, need: Need) -> Result<(), QueueError> {
        let wake = Arc::new(TaskWake::default());
        let mut watch = None;
        poll_fn(|context| self.poll(context, need, &wake, &mut watch)).await
    }

    fn poll(
        &mut self, context: &mut Context<'_>, need: Need, wake: &Arc<TaskWake>, watch: &mut Option<Watch>,
    ) -> Poll<Result<(), QueueError>> {
        wake.set(context.waker());
        let watch = watch.get_or_insert_with(|| self.sender.register(need, wake.clone()));
        match self.sender.look(watch) {
            Some(seen) => Poll::Ready(seen),
            None => {
                if !self.sender.is_driven() {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}
