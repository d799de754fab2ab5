//! The inside of a queue behind its owner word: a value that only the thread that set RUNNING in the word may touch
//! (`word.rs` has the protocol).
//!
//! The compare-and-swap that leaves (release) pairs with the one that claims (acquire).
//! - (E) who arms or ends being dedicated changes the word, then looks at the tails; a sender publishes its tail, then looks
//!   at the word. With the asymmetric fence between, one of them sees the other.
//! - (F) the holder of the bias raises `entered`, then looks at the word; who takes the bias away changes the
//!   word, then looks at `entered`. With the asymmetric fence between, one of them sees the other.
//!
//! Who is inside, a type says: [`Ownership`] or [`Entered`], made here alone; the value is reached through them, in `share.rs`.
#![forbid(unsafe_code)]

use crate::share::Inside;
use crate::sync::{AtomicBool, AtomicU64, Ordering, heavy, light, yield_now};
use crate::word::{ARMED, BIASED, DEAD, DEDICATED, OFFERED, RUNNING, WORK};
use crossbeam_utils::CachePadded;

/// A value that one thread at a time may touch: whoever set RUNNING in the word.
pub struct OwnerCell<T> {
    word: CachePadded<AtomicU64>,
    /// The holder of the bias is inside.
    entered: AtomicBool,
    /// The bias has been given out.
    bias_is_out: AtomicBool,
    number: u64,
    value: Inside<T>,
}

/// Cells there have been: a number names one for ever, so that no cell lets in another one's bias.
static CELLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// What became of a publication.
#[derive(Debug)]
pub enum Published<'a, T> {
    /// Nobody owned the cell: the caller does now, and must drain.
    Owner(Ownership<'a, T>),
    /// The owner will see it.
    Seen,
    /// A dedicated owner sleeps, and the caller is the one to wake it.
    WakeOwner,
    /// An owner died holding the cell (it panicked): nobody will drain any more.
    Dead,
}

impl<T> OwnerCell<T> {
    /// A cell that nobody owns.
    pub fn new(value: T) -> Self {
        let word = CachePadded::new(AtomicU64::new(0));
        let (entered, bias_is_out) = (AtomicBool::new(false), AtomicBool::new(false));
        let number = CELLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { word, entered, bias_is_out, number, value: Inside::new(value) }
    }

    /// Announces what the caller has just put into its lane, whose ready bit is `bit`.
    #[inline]
    pub fn publish(&self, bit: u64) -> Published<'_, T> {
        light(); // (E) pairs with `Ownership::arm` and `Ownership::undedicate`
        let seen = self.word.load(Ordering::Relaxed);
        if seen & (DEDICATED | DEAD) != 0 {
            return self.publish_to_dedicated(seen);
        }
        self.claim(bit)
    }

    /// Sets `bits` (of those that announce work; others are left out) and becomes the owner if there is none.
    #[inline]
    pub fn claim(&self, bits: u64) -> Published<'_, T> {
        if self.word.compare_exchange(0, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Published::Owner(Ownership { cell: self });
        }
        let before = self.word.fetch_or(RUNNING | (bits & WORK), Ordering::AcqRel);
        match before & (RUNNING | DEAD) {
            0 if before & BIASED != 0 => self.revoke(),
            0 => Published::Owner(Ownership { cell: self }),
            // A dedicated owner that sleeps looks at no bits.
            RUNNING if before & ARMED != 0 => self.publish_to_dedicated(before),
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

    /// RUNNING is ours, and somebody may be inside by the bias: takes that away and waits until it is out.
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

    /// The cell's bias, of which there is one; `None` while somebody else has it.
    pub fn bias(&self) -> Option<Bias> {
        let is_out = self.bias_is_out.swap(true, Ordering::AcqRel);
        (!is_out).then_some(Bias { cell: self.number, is_held: false })
    }

    /// Ends what [`OwnerCell::bias`] began, for somebody else to take it.
    pub fn give_back(&self, mut bias: Bias) {
        self.let_go(&mut bias);
        if bias.cell == self.number {
            self.bias_is_out.store(false, Ordering::Release);
        }
    }

    /// Lets the holder of the bias in from now on by [`OwnerCell::enter`], if nobody owns the cell or wants to.
    pub fn hold(&self, bias: &mut Bias) {
        let is_mine = bias.cell == self.number && !bias.is_held;
        if is_mine && self.word.compare_exchange(0, BIASED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            bias.is_held = true;
        }
    }

    /// Ends [`OwnerCell::hold`]: to be done before the holder itself claims the cell, which would otherwise take
    /// the bias from itself at the price of a system call.
    pub fn let_go(&self, bias: &mut Bias) {
        if bias.is_held && bias.cell == self.number {
            bias.is_held = false;
            self.word.fetch_and(!BIASED, Ordering::AcqRel);
        }
    }

    /// Enters by the bias, without a locked instruction; `None` when it is not held, or has been taken away.
    #[inline(always)]
    pub fn enter<'a>(&'a self, bias: &'a mut Bias) -> Option<Entered<'a, T>> {
        if !bias.is_held || bias.cell != self.number {
            return None;
        }
        self.entered.store(true, Ordering::Relaxed);
        light(); // (F)
        if self.word.load(Ordering::Acquire) == BIASED {
            return Some(Entered { cell: self });
        }
        self.entered.store(false, Ordering::Release);
        bias.is_held = false;
        None
    }

    /// Whether an offer ([`Ownership::offer`]) is out that nobody has taken. Whoever made one asks until it is taken, or
    /// claims the cell itself.
    pub fn is_offered(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (RUNNING | OFFERED) == OFFERED
    }

    /// The word as it is now, for tests and displays.
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// The value of a cell that nobody else can reach.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The right to touch a cell's value. Ends by [`Ownership::leave`], [`Ownership::hand_over`] or [`Ownership::offer`]; dropped
/// otherwise (a panic unwound through it), the cell is marked dead: its inside may be half-changed.
#[derive(Debug)]
pub struct Ownership<'a, T> {
    cell: &'a OwnerCell<T>,
}

/// What lets its holder into one cell by a plain store, as long as nobody else wants in. Dropped without
/// [`OwnerCell::give_back`], that cell is without one for good.
#[derive(Debug)]
pub struct Bias {
    cell: u64,
    /// Held as far as the holder knows: another thread may have taken it away.
    is_held: bool,
}

impl Bias {
    /// Whether it is held, as far as its holder knows.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}

/// The right to touch a cell's value, by the bias. Ends by [`Entered::leave`]; dropped otherwise (a panic unwound
/// through it), the cell is marked dead.
#[derive(Debug)]
pub struct Entered<'a, T> {
    cell: &'a OwnerCell<T>,
}

impl<T> Entered<'_, T> {
    #[inline(always)]
    pub(crate) fn inside(&self) -> &Inside<T> {
        &self.cell.value
    }

    /// Leaves.
    #[inline(always)]
    pub fn leave(self) {
        self.cell.entered.store(false, Ordering::Release);
        std::mem::forget(self);
    }
}

impl<T> Drop for Entered<'_, T> {
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
    pub(crate) fn inside(&self) -> &Inside<T> {
        &self.cell.value
    }

    /// Takes (clears and returns) the bits of `mask` that are set. Do so *before* reading the tails that
    /// they announce: a tail published later sets its bit again.
    #[inline]
    pub fn take_bits(&mut self, mask: u64) -> u64 {
        let mask = mask & WORK;
        if self.cell.word.load(Ordering::Relaxed) & mask == 0 {
            return 0;
        }
        self.cell.word.fetch_and(!mask, Ordering::AcqRel) & mask
    }

    /// The bits of `mask` that are set, without taking them.
    pub fn peek_bits(&self, mask: u64) -> u64 {
        self.cell.word.load(Ordering::Acquire) & mask
    }

    /// Sets `bits` for the next owner to find.
    pub fn set_bits(&mut self, bits: u64) {
        self.cell.word.fetch_or(bits & WORK, Ordering::AcqRel);
    }

    /// Leaves, unless something was announced since the bits were taken: then the ownership comes back, and
    /// there is more to do.
    ///
    /// # Errors
    /// The ownership itself.
    #[inline]
    pub fn leave(self) -> Result<(), Self> {
        match self.cell.word.compare_exchange(RUNNING, 0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(_) => Err(self),
        }
    }

    /// Leaves with bits set: only with a successor named who will come and look.
    pub fn hand_over(self) {
        self.cell.word.fetch_and(!RUNNING, Ordering::AcqRel);
        std::mem::forget(self);
    }

    /// Leaves with bits set, for whoever claims next: only by who then stands by ([`OwnerCell::is_offered`]).
    pub fn offer(self) {
        self.cell.word.fetch_or(OFFERED, Ordering::Relaxed);
        self.hand_over();
    }

    /// Becomes a dedicated owner: senders neither claim nor set bits, they only publish their tails, which
    /// this owner must poll. Look at every tail once more after this.
    pub fn dedicate(&mut self) {
        self.cell.word.fetch_or(DEDICATED, Ordering::AcqRel);
    }

    /// Stops being dedicated. Look at every tail once more after this, and before leaving.
    pub fn undedicate(&mut self) {
        self.cell.word.fetch_and(!(DEDICATED | ARMED), Ordering::AcqRel);
        heavy(); // (E)
    }

    /// Asks senders for a wake-up, before a dedicated owner sleeps. Look at every tail once more after this.
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
