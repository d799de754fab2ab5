//! The owner cell: a value behind an owner word. Only the thread that set RUNNING in the word may access the
//! value; `word.rs` describes the protocol.
//!
//! The compare-and-swap that leaves (release) pairs with the one that claims (acquire).
//! - (E) An owner that arms, or ends being dedicated, changes the word, then reads the lanes' tails. A sender
//!   publishes its tail, then reads the word. The asymmetric fence stands between the two: at least one side
//!   sees the other.
//! - (F) The holder of the bias sets `entered`, then reads the word. A thread that takes the bias away
//!   changes the word, then reads `entered`. The asymmetric fence stands between the two: at least one side
//!   sees the other.
//!
//! The right to access the value is a type, made here alone: [`Ownership`] or [`BiasedOwnership`]. `share.rs`
//! accepts only these.
#![forbid(unsafe_code)]

use crate::share::CellValue;
use crate::sync::{AtomicBool, AtomicU64, Ordering, heavy, light, yield_now};
use crate::word::{ARMED, BIASED, DEAD, DEDICATED, OFFERED, READY, RESERVED, RUNNING, WORK};
use crossbeam_utils::CachePadded;

/// A value that one thread at a time may access: the thread that set RUNNING in the word.
pub struct OwnerCell<T> {
    word: CachePadded<AtomicU64>,
    /// True while the holder of the bias accesses the value.
    entered: AtomicBool,
    /// True while the bias is handed out.
    bias_is_taken: AtomicBool,
    /// See [`OwnerCell::share_bits`].
    shares_bits: AtomicBool,
    number: u64,
    value: CellValue<T>,
}

/// The number of cells made so far. A cell's number is never used again, so that no cell accepts another
/// one's bias.
static CELLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// The outcome of a publication or a claim.
#[derive(Debug)]
pub enum Published<'a, T> {
    /// The cell had no owner. The caller is the owner now, and must drain the lanes.
    Owner(Ownership<'a, T>),
    /// The owner will see it.
    Seen,
    /// A dedicated owner sleeps, or the cell is reserved for pollers, and the caller must wake it or one of them.
    WakeOwner,
    /// An owner panicked while it held the cell: no thread will drain it any more.
    Dead,
}

impl<T> OwnerCell<T> {
    /// Makes a cell without an owner.
    pub fn new(value: T) -> Self {
        let word = CachePadded::new(AtomicU64::new(0));
        let [entered, bias_is_taken, shares_bits] = std::array::from_fn(|_| AtomicBool::new(false));
        let number = CELLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { word, entered, bias_is_taken, shares_bits, number, value: CellValue::new(value) }
    }

    /// Announces that the caller has published frames on the lane with the ready bit `bit`.
    #[inline]
    pub fn publish(&self, bit: u64) -> Published<'_, T> {
        light(); // (E) pairs with `Ownership::arm` and `Ownership::undedicate`
        let seen = self.word.load(Ordering::Relaxed);
        if seen & (DEDICATED | DEAD | RESERVED) != 0 {
            return self.publish_to_other(seen, bit);
        }
        self.claim(bit)
    }

    #[cold]
    fn publish_to_other(&self, seen: u64, bit: u64) -> Published<'_, T> {
        if seen & (DEDICATED | DEAD) == 0 { self.announce(bit) } else { self.publish_to_dedicated(seen) }
    }

    /// Works like [`OwnerCell::claim`] for a thread that is no poller: it does not become the owner of a reserved cell.
    #[inline]
    pub fn claim_unreserved(&self, bits: u64) -> Published<'_, T> {
        match self.word.compare_exchange(0, RUNNING, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Published::Owner(Ownership { cell: self }),
            Err(seen) if seen & (RESERVED | DEDICATED) == RESERVED => match bits & WORK {
                0 => Published::Seen,
                bits => self.announce(bits),
            },
            Err(_) => self.claim_taken(bits),
        }
    }

    /// Sets `bits` in a reserved cell.
    #[cold]
    fn announce(&self, bits: u64) -> Published<'_, T> {
        let before = self.word.fetch_or(bits & WORK, Ordering::AcqRel);
        match before & (RUNNING | DEAD) {
            // The reservation was withdrawn meanwhile.
            0 if before & RESERVED == 0 => self.claim(bits),
            // A sender wakes a poller for its own bit: another one that has set a bit may be stopped before it does so.
            0 if bits & READY == bits
                && before & bits == bits
                && !self.shares_bits.load(Ordering::Relaxed) =>
            {
                Published::Seen
            }
            0 => Published::WakeOwner,
            RUNNING if before & ARMED != 0 => self.publish_to_dedicated(before),
            RUNNING => Published::Seen,
            _ => Published::Dead,
        }
    }

    /// Notes that several lanes have the same ready bit, before the second of them is used.
    pub fn share_bits(&self) {
        self.shares_bits.store(true, Ordering::Relaxed);
    }

    /// Reserves the cell for pollers ([`OwnerCell::claim`]), at any time. A sender that owns it leaves it once more.
    pub fn reserve(&self) {
        self.word.fetch_or(RESERVED, Ordering::AcqRel);
    }

    /// Ends the reservation. Bits may be set that no owner has seen: the caller claims the cell once.
    pub fn unreserve(&self) {
        self.word.fetch_and(!RESERVED, Ordering::AcqRel);
    }

    /// Sets `bits`, of which only those of [`crate::word::WORK`] count. The caller becomes the owner if the
    /// cell has none.
    #[inline]
    pub fn claim(&self, bits: u64) -> Published<'_, T> {
        if self.word.compare_exchange(0, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Published::Owner(Ownership { cell: self });
        }
        self.claim_taken(bits)
    }

    #[inline]
    fn claim_taken(&self, bits: u64) -> Published<'_, T> {
        let before = self.word.fetch_or(RUNNING | (bits & WORK), Ordering::AcqRel);
        match before & (RUNNING | DEAD) {
            0 if before & BIASED != 0 => self.revoke(),
            0 => Published::Owner(Ownership { cell: self }),
            // An armed owner sleeps, and reads no bits. A caller without work wakes nobody: ARMED stays for
            // one that has some.
            RUNNING if before & ARMED != 0 && bits & WORK != 0 => self.publish_to_dedicated(before),
            RUNNING => Published::Seen,
            _ => Published::Dead,
        }
    }

    #[cold]
    fn publish_to_dedicated(&self, seen: u64) -> Published<'_, T> {
        if seen & DEAD != 0 {
            return Published::Dead;
        }
        if seen & ARMED != 0 && self.word.fetch_and(!ARMED, Ordering::AcqRel) & ARMED != 0 {
            return Published::WakeOwner;
        }
        Published::Seen
    }

    /// Takes the bias away, and waits until its holder has left. The caller has set RUNNING.
    #[cold]
    fn revoke(&self) -> Published<'_, T> {
        self.word.fetch_and(!BIASED, Ordering::AcqRel);
        heavy(); // (F)
        while self.entered.load(Ordering::Acquire) {
            yield_now();
        }
        if self.word.load(Ordering::Acquire) & DEAD != 0 {
            return Published::Dead;
        }
        Published::Owner(Ownership { cell: self })
    }

    /// Takes the cell's bias, of which there is one; `None` while it is taken.
    pub fn take_bias(&self) -> Option<Bias> {
        let is_taken = self.bias_is_taken.swap(true, Ordering::AcqRel);
        (!is_taken).then_some(Bias { cell: self.number, is_held: false })
    }

    /// Gives the bias back, so that another sender may take it.
    pub fn return_bias(&self, mut bias: Bias) {
        self.release(&mut bias);
        if bias.cell == self.number {
            self.bias_is_taken.store(false, Ordering::Release);
        }
    }

    /// Sets BIASED, if the cell has neither owner nor work: from then on the bias's holder may call
    /// [`OwnerCell::enter`].
    pub fn acquire(&self, bias: &mut Bias) {
        let is_mine = bias.cell == self.number && !bias.is_held;
        if is_mine && self.word.compare_exchange(0, BIASED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            bias.is_held = true;
        }
    }

    /// Clears BIASED. The holder does so before it claims the cell itself: otherwise it would take the bias
    /// away from itself, at the price of a system call.
    pub fn release(&self, bias: &mut Bias) {
        if bias.is_held && bias.cell == self.number {
            bias.is_held = false;
            self.word.fetch_and(!BIASED, Ordering::AcqRel);
        }
    }

    /// Enters by the bias, without a locked instruction. `None` if the bias is not held or was taken away.
    #[inline(always)]
    pub fn enter<'a>(&'a self, bias: &'a mut Bias) -> Option<BiasedOwnership<'a, T>> {
        if !bias.is_held || bias.cell != self.number {
            return None;
        }
        self.entered.store(true, Ordering::Relaxed);
        light(); // (F)
        if self.word.load(Ordering::Acquire) == BIASED {
            return Some(BiasedOwnership { cell: self });
        }
        self.entered.store(false, Ordering::Release);
        bias.is_held = false;
        None
    }

    /// True if an offer ([`Ownership::offer`]) stands that no thread has taken. The thread that made the
    /// offer asks until it is taken, or claims the cell itself.
    pub fn is_offered(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (RUNNING | OFFERED) == OFFERED
    }

    /// Returns the word at this moment, for tests and displays.
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Returns the value of a cell that is borrowed mutably.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The right to access a cell's value. It ends by [`Ownership::leave`], [`Ownership::hand_over`] or
/// [`Ownership::offer`]. If it is dropped otherwise (a panic unwinds), the cell is marked dead: its value may
/// be half-changed.
#[derive(Debug)]
pub struct Ownership<'a, T> {
    cell: &'a OwnerCell<T>,
}

/// The right to enter one cell by a plain store, while no other thread claims it. If it is dropped without
/// [`OwnerCell::return_bias`], the cell has no bias any more.
#[derive(Debug)]
pub struct Bias {
    cell: u64,
    /// Held as far as the holder knows: another thread may have taken the bias away.
    is_held: bool,
}

impl Bias {
    /// True if the bias is held, as far as its holder knows.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

/// The right to access a cell's value, by the bias. It ends by [`BiasedOwnership::leave`]. If it is dropped
/// otherwise (a panic unwinds), the cell is marked dead.
#[derive(Debug)]
pub struct BiasedOwnership<'a, T> {
    cell: &'a OwnerCell<T>,
}

impl<T> BiasedOwnership<'_, T> {
    #[inline(always)]
    pub(crate) fn value(&self) -> &CellValue<T> {
        &self.cell.value
    }

    /// Ends the access.
    #[inline(always)]
    pub fn leave(self) {
        self.cell.entered.store(false, Ordering::Release);
        std::mem::forget(self);
    }
}

impl<T> Drop for BiasedOwnership<'_, T> {
    #[cold]
    fn drop(&mut self) {
        self.cell.word.fetch_or(RUNNING | DEAD, Ordering::AcqRel);
        self.cell.entered.store(false, Ordering::Release);
    }
}

impl<T> std::fmt::Debug for OwnerCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnerCell({:#x})", self.word())
    }
}

impl<'a, T> Ownership<'a, T> {
    #[inline(always)]
    pub(crate) fn value(&self) -> &CellValue<T> {
        &self.cell.value
    }

    /// Clears the bits of `mask` that are set, and returns them. The owner does so *before* it reads the
    /// tails that they announce: a tail that is published later sets its bit again.
    #[inline]
    pub fn take_bits(&mut self, mask: u64) -> u64 {
        let mask = mask & WORK;
        if self.cell.word.load(Ordering::Relaxed) & mask == 0 {
            return 0;
        }
        self.cell.word.fetch_and(!mask, Ordering::AcqRel) & mask
    }

    /// Returns the bits of `mask` that are set, and leaves them set.
    pub fn peek_bits(&self, mask: u64) -> u64 {
        self.cell.word.load(Ordering::Acquire) & mask
    }

    /// Leaves the cell, unless work was announced since the bits were taken.
    ///
    /// # Errors
    /// The ownership itself, if there is more work.
    #[inline]
    pub fn leave(self) -> Result<(), Self> {
        match self.cell.word.compare_exchange(RUNNING, 0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(seen) if seen == RUNNING | RESERVED => self.leave_reserved(),
            Err(_) => Err(self),
        }
    }

    #[cold]
    fn leave_reserved(self) -> Result<(), Self> {
        let word = &self.cell.word;
        match word.compare_exchange(RUNNING | RESERVED, RESERVED, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(_) => Err(self),
        }
    }

    /// Leaves the cell with bits set. The caller has named a successor that will claim it.
    pub fn hand_over(self) {
        self.cell.word.fetch_and(!RUNNING, Ordering::AcqRel);
        std::mem::forget(self);
    }

    /// Leaves the cell with bits set, for the next thread that claims it. The caller stands by until then
    /// ([`OwnerCell::is_offered`]).
    pub fn offer(self) {
        self.cell.word.fetch_or(OFFERED, Ordering::Relaxed);
        self.hand_over();
    }

    /// Becomes a dedicated owner: senders neither claim the cell nor set bits, but only publish their tails.
    /// This owner polls the tails, and reads each once more after this call.
    pub fn dedicate(&mut self) {
        self.cell.word.fetch_or(DEDICATED, Ordering::AcqRel);
    }

    /// Stops being dedicated. The owner reads each tail once more after this call, and before it leaves.
    pub fn undedicate(&mut self) {
        self.cell.word.fetch_and(!(DEDICATED | ARMED), Ordering::AcqRel);
        heavy(); // (E)
    }

    /// Asks senders for a wake-up, before a dedicated owner sleeps. The owner reads each tail once more after
    /// this call.
    pub fn arm(&mut self) {
        self.cell.word.fetch_or(ARMED, Ordering::AcqRel);
        heavy(); // (E)
    }

    /// Withdraws [`Ownership::arm`].
    pub fn disarm(&mut self) {
        self.cell.word.fetch_and(!ARMED, Ordering::AcqRel);
    }
}

impl<T> Drop for Ownership<'_, T> {
    #[cold]
    fn drop(&mut self) {
        self.cell.word.fetch_or(DEAD, Ordering::AcqRel);
    }
}
