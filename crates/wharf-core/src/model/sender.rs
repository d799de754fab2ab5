//! A sender's call in two parts: into the lane, and the owner's run.

use super::{Burst, SendError, Sender};

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
}
