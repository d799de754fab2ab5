//! `AsyncSender`: a sender whose waiting is a future. It assumes no runtime: whatever polls futures will do.
//!
//! Somebody should run the queue meanwhile (a [`crate::poller::Poller`], a dedicated owner): without one, a task
//! that waits asks to be polled again at once, and runs the queue itself each time.

use super::waiting::Watch;
use super::{Burst, PoolError, QueueError, Sender};
use crate::host::Wake;
use crate::pool::lock;
use crate::tx::queue::waiters::Need;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// See the module. All its futures can be dropped at any time: what was not sent is still in the burst, and a place
/// in the order of those who wait goes to the next.
#[derive(Debug)]
pub struct AsyncSender {
    sender: Sender,
}

impl Sender {
    /// The same sender, waiting as a task does.
    #[must_use]
    pub fn into_async(self) -> AsyncSender {
        AsyncSender { sender: self }
    }
}

impl AsyncSender {
    /// The sender, for what does not wait: `try_send`, `fill`, counters.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// The sender back.
    #[must_use]
    pub fn into_sender(self) -> Sender {
        self.sender
    }

    /// An empty burst of the queue's pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.sender.burst(capacity)
    }

    /// Adds up to `count` packets of `len_bytes` to a burst, at least one, when there is memory for it; how many.
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
    /// As [`Sender::send`].
    pub async fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.sender.try_send(burst)?;
        while let Some(need) = self.sender.need(burst.batch_mut()) {
            self.wait(need).await?;
            self.sender.offer_served(burst.batch_mut())?;
        }
        Ok(())
    }

    /// Waits until `try_send` would take at least one packet, of whatever band.
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
        let wake = Arc::new(TaskWake(Mutex::new(None)));
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

/// Wakes the task that was the last to poll: a future may move from task to task.
#[derive(Debug)]
struct TaskWake(Mutex<Option<Waker>>);

impl TaskWake {
    fn set(&self, waker: &Waker) {
        let mut mine = lock(&self.0);
        if !mine.as_ref().is_some_and(|mine| mine.will_wake(waker)) {
            *mine = Some(waker.clone());
        }
    }
}

impl Wake for TaskWake {
    fn wake(&self) {
        let waker = lock(&self.0).clone();
        waker.iter().for_each(Waker::wake_by_ref);
    }
}
