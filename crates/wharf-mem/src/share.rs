//! What two threads share: the slots of a single-producer ring, and the inside of a queue behind its owner word.
//!
//! **Ring.** One producer, one consumer, u32 indices that run free and wrap. Slots between `head` and `tail`
//! belong to the consumer, the others to the producer.
//! - (A) the producer's release store of `tail` pairs with (B) the consumer's acquire load: the slots' contents.
//! - (C) the consumer's release store of `head` pairs with (D) the producer's acquire load: slots read out.
//!
//! **Owner cell.** A value that only the thread that set RUNNING in the word may touch (`word.rs` has the
//! protocol). The compare-and-swap that leaves (release) pairs with the one that claims (acquire).
//! - (F) the holder of the bias raises `entered`, then looks at the word; who takes the bias away changes the
//!   word, then looks at `entered`. With the asymmetric fence between, one of them sees the other.

use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering, UnsafeCell, heavy, light, yield_now};
use crate::word::{ARMED, BIASED, DEAD, DEDICATED, OFFERED, RUNNING, WORK};
use crossbeam_utils::CachePadded;

struct Ring<T> {
    slots: Box<[UnsafeCell<T>]>,
    tail: CachePadded<AtomicU32>,
    head: CachePadded<Head>,
    producer_gone: AtomicBool,
}

/// What the consumer says.
struct Head {
    index: AtomicU32,
    /// A number for the producer, beside the index and on its cache line.
    note: AtomicU32,
}

// SAFETY: a slot is accessed by one side at a time, as (A)-(D) say; `T` is `Copy` data that may move
// between threads.
unsafe impl<T: Copy + Send> Sync for Ring<T> {}
// SAFETY: as above; nothing in it is tied to a thread.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

/// The end that puts in.
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: u32,
    head_seen: u32,
    /// Slots that may be full at a time: the capacity, or fewer.
    limit: u32,
}

/// The end that takes out.
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: u32,
    tail_seen: u32,
}

/// A ring of `capacity` (a power of two) whose indices begin at `start`.
pub(crate) fn ring<T: Copy + Default>(capacity: u32, start: u32) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "a ring's capacity is a power of two, not {capacity}");
    let ring = Arc::new(Ring {
        slots: (0..capacity).map(|_| UnsafeCell::new(T::default())).collect(),
        tail: CachePadded::new(AtomicU32::new(start)),
        head: CachePadded::new(Head { index: AtomicU32::new(start), note: AtomicU32::new(start) }),
        producer_gone: AtomicBool::new(false),
    });
    let consumer = Consumer { ring: ring.clone(), head: start, tail_seen: start };
    (Producer { ring, tail: start, head_seen: start, limit: capacity }, consumer)
}

impl<T: Copy> Ring<T> {
    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline(always)]
    fn cell(&self, at: u32) -> &UnsafeCell<T> {
        &self.slots[(at & (self.capacity() - 1)) as usize]
    }

    /// The cells of the `count` slots from index `at`, in order: two runs, since the ring may end between.
    #[inline(always)]
    fn cells(&self, at: u32, count: usize) -> (&[UnsafeCell<T>], &[UnsafeCell<T>]) {
        let place = (at & (self.capacity() - 1)) as usize;
        let first = count.min(self.slots.len() - place);
        (&self.slots[place..place + first], &self.slots[..count - first])
    }
}

/// # Safety
/// The caller owns the slot.
#[inline(always)]
unsafe fn write<T: Copy>(slot: &UnsafeCell<T>, value: T) {
    #[cfg(not(loom))]
    // SAFETY: the caller owns the slot, so that nobody reads or writes it meanwhile.
    unsafe {
        *slot.get() = value;
    }
    #[cfg(loom)]
    // SAFETY: as above; loom checks it.
    slot.with_mut(|slot| unsafe { *slot = value });
}

/// # Safety
/// The caller owns the slot.
#[inline(always)]
unsafe fn read<T: Copy>(slot: &UnsafeCell<T>) -> T {
    #[cfg(not(loom))]
    // SAFETY: the caller owns the slot, so that nobody writes it meanwhile.
    return unsafe { *slot.get() };
    #[cfg(loom)]
    // SAFETY: as above; loom checks it.
    slot.with(|slot| unsafe { *slot })
}

impl<T: Copy> Producer<T> {
    /// Slots that may be written now, at least `want` if there are that many.
    #[inline(always)]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        let room = self.limit.saturating_sub(self.tail.wrapping_sub(self.head_seen));
        if room as usize >= want {
            return room as usize;
        }
        self.head_seen = self.ring.head.index.load(Ordering::Acquire); // (D)
        self.limit.saturating_sub(self.tail.wrapping_sub(self.head_seen)) as usize
    }

    /// The consumer's note.
    pub(crate) fn note(&self) -> u32 {
        self.ring.head.note.load(Ordering::Relaxed)
    }

    /// Lets at most `slots` be full at a time; at most the capacity.
    pub(crate) fn set_limit(&mut self, slots: u32) {
        self.limit = slots.min(self.ring.capacity());
    }

    /// Writes what there is room for of `from`, turned into slots by `slot`, and publishes it; how many.
    #[inline(always)]
    pub(crate) fn push<F>(&mut self, from: &[F], slot: impl Fn(&F) -> T) -> usize {
        let count = self.room(from.len()).min(from.len());
        if let [one] = &from[..count] {
            // A burst of one is what a quiet path sends: spare it the set-up of two loops.
            return usize::from(self.push_one(|| slot(one)));
        }
        let (first, second) = self.ring.cells(self.tail, count);
        let (from_first, from_second) = from[..count].split_at(first.len());
        for (cells, from) in [(first, from_first), (second, from_second)] {
            for (cell, from) in cells.iter().zip(from) {
                // SAFETY: `room` says that these slots are the producer's.
                unsafe { write(cell, slot(from)) };
            }
        }
        self.publish(count);
        count
    }

    /// As [`Producer::push`] for one slot; whether there was room.
    #[inline(always)]
    pub(crate) fn push_one(&mut self, slot: impl FnOnce() -> T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: `room` says that this slot is the producer's.
        unsafe { write(self.ring.cell(self.tail), slot()) };
        self.publish(1);
        true
    }

    #[inline(always)]
    fn publish(&mut self, count: usize) {
        if count == 0 {
            return; // a line that the other side reads is not written for nothing
        }
        self.tail = self.tail.wrapping_add(count as u32);
        self.ring.tail.store(self.tail, Ordering::Release); // (A)
    }

    /// Whether the consumer has taken all that was published.
    #[inline(always)]
    pub(crate) fn drained(&mut self) -> bool {
        self.room(self.limit as usize) == self.limit as usize
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity() as usize
    }

    /// Slots published and not taken yet.
    pub(crate) fn waiting(&mut self) -> usize {
        self.head_seen = self.ring.head.index.load(Ordering::Acquire); // (D)
        self.tail.wrapping_sub(self.head_seen) as usize
    }
}

impl<T> Producer<T> {
    /// Says that nothing more will come.
    pub(crate) fn abandon(&mut self) {
        self.ring.producer_gone.store(true, Ordering::Release);
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl<T: Copy> Consumer<T> {
    /// Slots that hold something now, at least `want` if there are that many; looks at the producer's index
    /// only when it knows of fewer.
    #[inline(always)]
    pub(crate) fn ready(&mut self, want: usize) -> usize {
        let ready = self.tail_seen.wrapping_sub(self.head) as usize;
        if ready >= want { ready } else { self.ready_now() }
    }

    /// As [`Consumer::ready`], but always looks.
    #[inline(always)]
    pub(crate) fn ready_now(&mut self) -> usize {
        self.tail_seen = self.ring.tail.load(Ordering::Acquire); // (B)
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// Reads the next `to.len()` slots, of which `ready` has said that they are there, turned by `value`, and
    /// frees them.
    #[inline(always)]
    pub(crate) fn pop_to<V>(&mut self, to: &mut [V], mut value: impl FnMut(T) -> V) {
        if let ([one], true) = (&mut *to, self.tail_seen != self.head) {
            // SAFETY: as below.
            *one = value(unsafe { read(self.ring.cell(self.head)) });
            return self.release(1);
        }
        let (first, second) = self.next_cells(to.len());
        let (to_first, to_second) = to.split_at_mut(first.len());
        for (cells, to) in [(first, to_first), (second, to_second)] {
            for (cell, to) in cells.iter().zip(to) {
                // SAFETY: (B) made these slots the consumer's, and the producer wrote them before (A).
                *to = value(unsafe { read(cell) });
            }
        }
        self.release(to.len());
    }

    /// Shows the next `count` slots, of which `ready` has said that they are there.
    #[inline(always)]
    pub(crate) fn look(&self, count: usize, mut see: impl FnMut(T)) {
        let (first, second) = self.next_cells(count);
        for cells in [first, second] {
            // SAFETY: as in `pop_to`.
            cells.iter().for_each(|cell| see(unsafe { read(cell) }));
        }
    }

    /// As [`Consumer::pop_to`], pushing `count` values onto a stack.
    #[inline(always)]
    pub(crate) fn pop_onto<V>(&mut self, to: &mut Vec<V>, count: usize, mut value: impl FnMut(T) -> V) {
        let (first, second) = self.next_cells(count);
        for cells in [first, second] {
            // SAFETY: as in `pop_to`.
            to.extend(cells.iter().map(|cell| value(unsafe { read(cell) })));
        }
        self.release(count);
    }

    #[inline(always)]
    fn next_cells(&self, count: usize) -> (&[UnsafeCell<T>], &[UnsafeCell<T>]) {
        assert!(count <= self.tail_seen.wrapping_sub(self.head) as usize);
        self.ring.cells(self.head, count)
    }

    #[inline(always)]
    fn release(&mut self, count: usize) {
        if count == 0 {
            return; // as in `publish`: an empty poll writes nothing
        }
        self.head = self.head.wrapping_add(count as u32);
        self.ring.head.index.store(self.head, Ordering::Release); // (C)
    }

    /// Adds `n` to the note for the producer: a sum that wraps and orders nothing else.
    #[inline(always)]
    pub(crate) fn add_to_note(&self, n: u32) {
        let note = &self.ring.head.note;
        note.store(note.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// As [`Producer::note`].
    pub(crate) fn note(&self) -> u32 {
        self.ring.head.note.load(Ordering::Relaxed)
    }

    /// The next slot's index.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Whether the producer has been dropped; what it published before is still there.
    pub(crate) fn producer_gone(&self) -> bool {
        self.ring.producer_gone.load(Ordering::Acquire)
    }
}

/// A value that one thread at a time may touch: whoever set RUNNING in the word.
pub struct OwnerCell<T> {
    word: CachePadded<AtomicU64>,
    /// The holder of the bias is inside.
    entered: AtomicBool,
    /// The bias has been given out.
    bias_is_out: AtomicBool,
    number: u64,
    value: UnsafeCell<T>,
}

/// Cells there have been: a number names one for ever, so that no cell lets in another one's bias.
static CELLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

// SAFETY: `value` is reached only through `Ownership`, of which RUNNING admits one at a time, and `Entered`, of
// which there is one at most, and none beside an `Ownership` (F); whoever gets it next has acquired what the last
// one released.
unsafe impl<T: Send> Sync for OwnerCell<T> {}

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
        Self { word, entered, bias_is_out, number, value: UnsafeCell::new(value) }
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
    /// Works on the value.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        // SAFETY: there is one bias to a cell, borrowed for as long as this lives; an `Ownership` waits until
        // `entered` is down (F), and `&mut self` is the only use of this.
        return work(unsafe { &mut *self.cell.value.get() });
        #[cfg(loom)]
        // SAFETY: as above; loom checks it.
        self.cell.value.with_mut(|value| work(unsafe { &mut *value }))
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
    /// Works on the value.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        // SAFETY: this `Ownership` is the only one (RUNNING), and `&mut self` the only use of it.
        return work(unsafe { &mut *self.cell.value.get() });
        #[cfg(loom)]
        // SAFETY: as above; loom checks it.
        self.cell.value.with_mut(|value| work(unsafe { &mut *value }))
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
