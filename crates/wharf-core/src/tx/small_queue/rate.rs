//! `Rate`: the bytes that a sender and its whole queue send in [`super::WINDOW_NS`].

/// Weight of the last window in the average.
const WEIGHT: f64 = 0.25;

/// Recent bytes per window.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rate {
    pub(super) own_bytes: f64,
    /// Bytes of all senders.
    pub(super) queue_bytes: f64,
}

impl Rate {
    /// Averages a window in which the limit held the sender: devices and senders work by fits and starts.
    pub(super) fn average(&mut self, now: Self) {
        if self.queue_bytes == 0.0 {
            *self = now;
        }
        self.own_bytes += (now.own_bytes - self.own_bytes) * WEIGHT;
        self.queue_bytes += (now.queue_bytes - self.queue_bytes) * WEIGHT;
    }

    /// Returns the whole queue's rate times the sender's part to the power of 3/4.
    pub(super) fn levelled_bytes(&self) -> f64 {
        if self.own_bytes > 0.0 {
            self.own_bytes * (self.queue_bytes / self.own_bytes).sqrt().sqrt()
        } else {
            0.0
        }
    }
}
