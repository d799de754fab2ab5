//! The driver's side of a completion queue: reads completions, and expands compressed sessions.
//!
//! It trusts no byte in memory: any bytes give completions or an error. (Linux `mlx5/core/en_rx.c`,
//! `mlx5e_decompress_cqes_start` and `_cont`; `mlx5e_cqes_update_owner`.)

use super::completion::{Completion, Format, MINI_BYTES, MINIS, OWNER_AT, OWNER_UNWRITTEN, Selected};
use super::compress::{CompletionRing, SESSION_MAX};
use crate::nic::host_memory::{HostMemory, MemoryFault};

/// A fault of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompletionError {
    /// A slot of this pass that makes no sense.
    #[error("completion {index}: opcode, format and owner of {own:#04x} mean nothing")]
    Unreadable {
        /// The slot, counted from the queue's start.
        index: u32,
        /// The byte.
        own: u8,
    },
    /// A session of an invalid size.
    #[error("completion {index}: a session of {count}, where 2 to {most} can be")]
    Session {
        /// The slot.
        index: u32,
        /// The size in the slot.
        count: u32,
        /// The greatest valid size.
        most: u32,
    },
    /// The queue is not in memory.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
}

/// A reader of one completion queue.
#[derive(Debug)]
pub struct CompletionReader {
    ring: CompletionRing,
    /// Next slot to read, a free-running index.
    next: u32,
    selected: Selected,
    session: Option<Session>,
}

#[derive(Debug)]
struct Session {
    title: Completion,
    /// The slot of its title.
    first: u32,
    count: u32,
    /// Completions taken from it.
    taken: u32,
    array: [u8; MINIS * MINI_BYTES],
}

impl CompletionReader {
    /// Creates a reader, and marks all slots as never written. `selected` is as the queue was set up.
    ///
    /// # Errors
    /// The queue is not in memory.
    pub fn new(
        ring: CompletionRing, selected: Selected, memory: &mut HostMemory,
    ) -> Result<Self, MemoryFault> {
        for index in 0..ring.slots() {
            memory.write(ring.slot(index) + OWNER_AT as u64, &[OWNER_UNWRITTEN])?;
        }
        Ok(Self { ring, next: 0, selected, session: None })
    }

    /// Begins as if `index` slots had been read already: indices wrap at 2^32.
    ///
    /// # Errors
    /// The queue is not in memory.
    pub fn starting_at(self, index: u32, memory: &mut HostMemory) -> Result<Self, MemoryFault> {
        // A slot never written must not look like one of the pass that now begins.
        for n in 0..self.ring.slots() {
            let slot = index.wrapping_add(n);
            let own = OWNER_UNWRITTEN & !1 | (self.ring.owner(slot) ^ 1);
            memory.write(self.ring.slot(slot) + OWNER_AT as u64, &[own])?;
        }
        Ok(Self { next: index, ..self })
    }

    /// Returns the number of slots read, which the NIC may use again.
    pub fn position(&self) -> u32 {
        self.next
    }

    /// Returns the next completion, if there is one.
    ///
    /// # Errors
    /// [`CompletionError`]; the slot is skipped, so that the next call continues.
    pub fn next(&mut self, memory: &mut HostMemory) -> Result<Option<Completion>, CompletionError> {
        if self.session.is_none() {
            let own = memory.read::<1>(self.ring.slot(self.next) + OWNER_AT as u64)?[0];
            if own & 1 != self.ring.owner(self.next) {
                return Ok(None);
            }
            let slot = memory.read(self.ring.slot(self.next))?;
            let index = self.next;
            let read = Completion::from_slot(&slot);
            match read {
                Ok((completion, Format::Plain)) => {
                    self.next = self.next.wrapping_add(1);
                    return Ok(Some(completion));
                }
                Ok((title, Format::Title)) => self.begin(title)?,
                Err(unreadable) => {
                    self.next = self.next.wrapping_add(1);
                    return Err(CompletionError::Unreadable { index, own: unreadable.0 });
                }
            }
        }
        self.next_of_session(memory)
    }

    fn begin(&mut self, title: Completion) -> Result<(), CompletionError> {
        let (first, count) = (self.next, title.byte_count);
        let most = SESSION_MAX.min(self.ring.slots());
        if !(2..=most).contains(&count) {
            self.next = self.next.wrapping_add(1);
            return Err(CompletionError::Session { index: first, count, most });
        }
        let array = [0; MINIS * MINI_BYTES];
        self.session = Some(Session { title, first, count, taken: 0, array });
        Ok(())
    }

    fn next_of_session(&mut self, memory: &mut HostMemory) -> Result<Option<Completion>, CompletionError> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let nth = session.taken;
        if nth.is_multiple_of(MINIS as u32) {
            session.array = memory.read(self.ring.slot(session.first.wrapping_add(nth.max(1))))?;
        }
        let at = (nth as usize % MINIS) * MINI_BYTES;
        let mut mini = [0; MINI_BYTES];
        mini.copy_from_slice(&session.array[at..at + MINI_BYTES]);
        let completion = self.selected.expand(&session.title, nth, mini);
        session.taken += 1;
        if session.taken == session.count {
            self.session = None;
        }
        // The slot holds an array or old bytes: the owner bit of the next pass must differ. The NIC may use
        // it at once, even within a session, since buffers are posted for the packets taken.
        let own = self.ring.owner(self.next);
        memory.write(self.ring.slot(self.next) + OWNER_AT as u64, &[own])?;
        self.next = self.next.wrapping_add(1);
        Ok(Some(completion))
    }
}
