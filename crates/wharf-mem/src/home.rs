//! A home ring: free buffers on their way from the owner of a queue back to the sender they came from.
#![forbid(unsafe_code)]

use crate::batch::Batch;
use crate::frame::FreeFrame;
use crate::share::{Consumer, Producer, ring};

/// The owner's end.
pub struct HomeIn(Producer<u32>);

/// The sender's end.
pub struct HomeOut(Consumer<u32>);

/// A home ring for `capacity` buffers (a power of two), its indices starting at `start`.
///
/// # Panics
/// When `capacity` is not a power of two.
pub fn home(capacity: u32, start: u32) -> (HomeIn, HomeOut) {
    let (producer, consumer) = ring(capacity, start);
    (HomeIn(producer), HomeOut(consumer))
}

impl HomeIn {
    /// Sends the first `count` frames of `from` home, as many as there is room for, published once per 64;
    /// how many. The frames must have no row in the side table: `Region::strip` first.
    #[inline]
    pub fn push(&mut self, from: &mut Batch, count: usize) -> usize {
        let mut pushed = 0;
        let mut bits = [0u32; 64];
        while pushed < count {
            let part = (count - pushed).min(bits.len());
            for (to, frame) in bits.iter_mut().zip(&from.frames()[..part]) {
                *to = frame.moved().into_free().bits();
            }
            let took = self.0.push(&bits[..part]);
            from.advance(took);
            pushed += took;
            if took < part {
                break;
            }
        }
        pushed
    }
}

impl HomeOut {
    /// Moves all that has come home, up to `max`, onto `to`; how many.
    #[inline]
    pub fn pop(&mut self, to: &mut Vec<FreeFrame>, max: usize) -> usize {
        let ready = self.0.ready_now().min(max);
        let mut bits = [0u32; 64];
        let mut popped = 0;
        while popped < ready {
            let part = (ready - popped).min(bits.len());
            self.0.pop(&mut bits[..part]);
            to.extend(bits[..part].iter().map(|&bits| FreeFrame::from_bits(bits)));
            popped += part;
        }
        popped
    }

    /// Buffers waiting in it.
    pub fn len(&mut self) -> usize {
        self.0.ready_now()
    }

    /// Whether none waits.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }
}
