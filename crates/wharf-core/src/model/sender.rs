//! A sender's call in parts: into the lane, the owner's run, and the wait for what does not fit.

use super::{Burst, SendError, Sender, Watch};
use crate::host::Wake;
use crate::tx::queue::waiters::Need;
use std::sync::Arc;

/// The need of a sender whose packets do not fit: room, or completions of its own.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Wanted(Need);

#[doc(hidden)]
impl Sender {
    /// Puts the packets that fit into the lane without publishing it. Returns the bit of the owner word that would
    /// publish it: a modelled processor then [claims](crate::tx::queue::TxQueue::claim) the queue.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn stage(&mut self, burst: &mut Burst) -> Result<u64, SendError> {
        self.admit(burst)?;
        self.biased.release(self.shared.cell());
        self.push_admitted(burst.batch_mut());
        Ok(self.bit)
    }

    /// Returns the need of the packets left in `burst`, as [`Sender::send`] finds it before it waits;
    /// `None` if there are none.
    pub fn wanted(&mut self, burst: &mut Burst) -> Option<Wanted> {
        self.need(burst.batch_mut()).map(Wanted)
    }

    /// True if it is met.
    pub fn has(&mut self, wanted: Wanted) -> bool {
        self.has_come(wanted.0)
    }

    /// Returns the most looks of a spin that begins now; `None` if the sender sleeps at once.
    pub fn looks_of_spin(&self) -> Option<u32> {
        self.spin_looks_max()
    }

    /// Notes that a spin of so many looks has met the need, or not.
    pub fn end_spin(&mut self, looks: u32, is_met: bool) {
        self.learn_from_spin(looks, is_met);
    }

    /// Registers for a wake-up; then call [`Sender::look`].
    pub fn sleep(&mut self, wanted: Wanted, wake: Arc<dyn Wake>) -> Watch {
        self.register(wanted.0, wake)
    }

    /// Notes the end of a sleep that began at `began_ns`, when `gone` packets had left.
    pub fn end_sleep(&mut self, began_ns: u64, gone: u64) {
        self.learn_from_sleep(began_ns, gone);
    }
}
