//! What a sender and its queue send in a window of [`super::WINDOW_NS`].

/// Of a window, in the average.
const WEIGHT: f64 = 0.25;

/// Bytes per window, of late.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rate {
    pub(super) own_bytes: f64,
    /// Of all senders.
    pub(super) queue_bytes: f64,
}

impl Rate {
    /// What was measured in a window that the limit held back: an average, since device and senders go by fits and starts.
    pub(super) fn average(&mut self, now: Self) {
        if self.queue_bytes == 0.0 {
            *self = now;
        }
        self.own_bytes += (now.own_bytes - self.own_bytes) * WEIGHT;
        self.queue_bytes += (now.queue_bytes - self.queue_bytes) * WEIGHT;
    }

    /// The power of 3/4 of its own part, of the whole.
    pub(super) fn levelled_bytes(&self) -> f64 {
        if self.own_bytes > 0.0 {
            self.own_bytes * (self.queue_bytes / self.own_bytes).sqrt().sqrt()
        } else {
            0.0
        }
    }
}
