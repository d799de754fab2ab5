//! The NIC's side of a completion queue: writes completions singly or as sessions.
//!
//! A session of n completions takes the n slots that they would have taken: the title in the first, arrays of
//! eight mini completions in the second, the ninth, the seventeenth ... Mini completion 0 describes the title
//! itself. The slots between are not written. The title is written last: it says that the others are there.
//! (Linux `mlx5/core/en_rx.c`, `mlx5e_decompress_cqes_start`, read backwards.)

use super::completion::{COMPLETION_BYTES, Completion, Format, MINI_BYTES, MINIS, Selected};
use crate::nic::host_memory::{HostMemory, MemoryFault, Post};

/// The location of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionRing {
    /// Its first slot.
    pub address: u64,
    /// Logarithm of the number of its slots, 1 to 16.
    pub log_slots: u32,
}

impl CompletionRing {
    /// Allocates 2^`log_slots` slots.
    pub fn allocate(log_slots: u32, memory: &mut HostMemory) -> Self {
        Self { address: memory.allocate(COMPLETION_BYTES << log_slots), log_slots }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        1 << self.log_slots
    }

    /// Returns their bytes.
    pub fn len_bytes(&self) -> usize {
        (self.slots() as usize) * COMPLETION_BYTES
    }

    /// Returns the address of the slot of a free-running index.
    pub(super) fn slot(&self, index: u32) -> u64 {
        self.address + u64::from(index & (self.slots() - 1)) * COMPLETION_BYTES as u64
    }

    /// Returns the owner bit of the pass that `index` belongs to.
    pub(super) fn owner(&self, index: u32) -> u8 {
        (index >> self.log_slots & 1) as u8
    }
}

/// Most completions of a session. No published number can be cited; a NAPI poll takes as many.
pub const SESSION_MAX: u32 = 64;

/// A writer of one completion queue.
#[derive(Debug)]
pub struct CompletionWriter {
    ring: CompletionRing,
    /// Slots written or promised, a free-running count.
    next: u32,
    /// The settings of sessions; `None` with `rx_cqe_compress` off.
    compress: Option<Compress>,
    session: Vec<Completion>,
}

/// The settings of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compress {
    /// The field in mini completions.
    pub selected: Selected,
    /// Most completions of a session, 2 to [`SESSION_MAX`].
    pub session_max: u32,
}

impl CompletionWriter {
    /// Creates a writer. The owner bytes of the slots must be
    /// [`OWNER_UNWRITTEN`](super::completion::OWNER_UNWRITTEN).
    pub fn new(ring: CompletionRing, compress: Option<Compress>) -> Self {
        let session_max = |compress: Compress| {
            let most = SESSION_MAX.min(ring.slots());
            Compress { session_max: compress.session_max.max(2).min(most), ..compress }
        };
        Self { ring, next: 0, compress: compress.map(session_max), session: Vec::new() }
    }

    /// Begins as if `index` slots had been used already: indices wrap at 2^32.
    #[must_use]
    pub fn starting_at(self, index: u32) -> Self {
        Self { next: index, ..self }
    }

    /// Writes `completion`, or keeps it for its session.
    ///
    /// # Errors
    /// The queue is not in memory.
    pub fn push(&mut self, completion: Completion, memory: &mut impl Post) -> Result<(), MemoryFault> {
        let Some(compress) = self.compress else { return self.plain(&completion, memory) };
        if self
            .session
            .first()
            .is_some_and(|title| !compress.goes_with(title, self.session.len(), &completion))
        {
            self.flush(memory)?;
        }
        self.session.push(completion);
        if self.session.len() as u32 >= compress.session_max { self.flush(memory) } else { Ok(()) }
    }

    /// Returns the number of completions kept.
    pub fn pending(&self) -> usize {
        self.session.len()
    }

    /// Writes the completions kept: one alone as it is, more as a session.
    ///
    /// # Errors
    /// The queue is not in memory.
    pub fn flush(&mut self, memory: &mut impl Post) -> Result<(), MemoryFault> {
        let session = std::mem::take(&mut self.session);
        let done = match (&session[..], self.compress) {
            ([title, _, ..], Some(compress)) => self.session(title, &session, compress.selected, memory),
            _ => session.iter().try_for_each(|completion| self.plain(completion, memory)),
        };
        self.session = session;
        self.session.clear();
        done
    }

    fn plain(&mut self, completion: &Completion, memory: &mut impl Post) -> Result<(), MemoryFault> {
        let slot = completion.to_slot(Format::Plain, self.ring.owner(self.next));
        memory.post(self.ring.slot(self.next), &slot)?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    fn session(
        &mut self, title: &Completion, session: &[Completion], selected: Selected, memory: &mut impl Post,
    ) -> Result<(), MemoryFault> {
        for (nth, eight) in session.chunks(MINIS).enumerate() {
            let mut array = [0; COMPLETION_BYTES];
            for (place, completion) in array.chunks_exact_mut(MINI_BYTES).zip(eight) {
                place.copy_from_slice(&selected.mini(completion));
            }
            let at = (nth * MINIS).max(1) as u32;
            memory.post(self.ring.slot(self.next.wrapping_add(at)), &array)?;
        }
        let count = session.len() as u32;
        let slot =
            Completion { byte_count: count, ..*title }.to_slot(Format::Title, self.ring.owner(self.next));
        memory.post(self.ring.slot(self.next), &slot)?;
        self.next = self.next.wrapping_add(count);
        Ok(())
    }
}

impl Compress {
    /// True if `completion` can be the `nth` of the session of `title`: only the size, the selected field,
    /// and a counter that goes up by one may differ.
    fn goes_with(&self, title: &Completion, nth: usize, completion: &Completion) -> bool {
        let mini = self.selected.mini(completion);
        self.selected.expand(title, nth as u32, mini) == *completion
    }
}
