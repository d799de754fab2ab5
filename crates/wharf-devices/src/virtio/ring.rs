//! What split and packed rings have in common, for either side.

use super::{Chain, Layout, Memory, Place, RingError, Token, feature};

/// What was agreed upon, as far as it changes a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// [`feature::EVENT_IDX`].
    pub event_idx: bool,
    /// [`feature::INDIRECT`].
    pub indirect: bool,
    /// [`feature::IN_ORDER`].
    pub in_order: bool,
}

impl Options {
    /// Of negotiated features.
    pub fn of(features: u64) -> Self {
        let has = |bit: u64| features & bit != 0;
        Self {
            event_idx: has(feature::EVENT_IDX),
            indirect: has(feature::INDIRECT),
            in_order: has(feature::IN_ORDER),
        }
    }
}

/// The device's side of a virtqueue.
///
/// ```text
/// while ring.pop(&memory, &mut chain)? {      // the available index is read once per batch
///     chain.copy_out(&memory, 0, &mut bytes);
///     ring.put_used(chain.token(), 0);
/// }
/// ring.publish();                             // seen by the driver from here on, all at once
/// if ring.needs_notification() { call.signal() }
/// if !ring.enable_notification() { /* something came meanwhile: look again */ }
/// ```
pub trait DeviceRing: Send + std::fmt::Debug {
    /// Descriptors that it has.
    fn size(&self) -> u16;

    /// How it is laid out.
    fn layout(&self) -> Layout;

    /// Takes the next buffer that the driver has made available, in order; whether there was one. `chain` is written over.
    ///
    /// # Errors
    /// [`RingError`]: the driver breaks the rules, and the queue is not to be used any more.
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError>;

    /// Pops as many buffers of one descriptor each as there are `chains` for, as long as nothing is wrong with them: how many. The
    /// next one is to be had from [`DeviceRing::pop`], whatever it is.
    fn pop_plain(&mut self, memory: &Memory, chains: &mut [Chain]) -> usize;

    /// Gives back the buffer that was popped last (then the one before that, and so on): it will be popped again. Only before
    /// it was used.
    fn undo_pop(&mut self, token: Token);

    /// Gives a buffer back, into which `written_bytes` were written. Buffers are to be used in the order in which they were popped
    /// where [`Options::in_order`] was agreed upon. The driver sees it once it is published.
    fn put_used(&mut self, token: Token, written_bytes: u32);

    /// As [`DeviceRing::put_used`] of each of `chains` in turn, into which nothing was written.
    fn put_all_used(&mut self, chains: &[Chain]) {
        chains.iter().for_each(|chain| self.put_used(chain.token(), 0));
    }

    /// Shows the driver all that was used, at once; whether there was anything.
    fn publish(&mut self) -> bool;

    /// Whether the driver wants to be told of what was published since this was asked last.
    fn needs_notification(&mut self) -> bool;

    /// Asks to be told when something is made available; false when something is already: look again.
    fn enable_notification(&mut self) -> bool;

    /// Asks not to be told: a hint.
    fn disable_notification(&mut self);

    /// Where it stands, as GET_VRING_BASE answers: the index of the next buffer; of a packed ring, with the wrap counter in bit
    /// 15, and the same of the used side in the upper half.
    fn next_avail(&self) -> u32;
}

/// Bytes at an address that the peer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Where they begin.
    pub address: u64,
    /// How many.
    pub len_bytes: u32,
}

/// A buffer that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// What [`DriverRing::add`] called it. Free from now on.
    pub id: u16,
    /// Bytes that the device has written into it, as it says; no more than there was room for.
    pub written_bytes: u32,
}

/// The driver's side of a virtqueue.
///
/// ```text
/// let id = ring.add(&[extent], &[]);          // None: no room
/// table[id] = frame;
/// ring.publish();                             // seen by the device from here on, all at once
/// if ring.needs_kick() { kick.signal() }
/// while let Some(used) = ring.next_used()? { home(table[used.id]) }
/// if !ring.enable_notification() { /* something came back meanwhile: look again */ }
/// ```
pub trait DriverRing: Send + std::fmt::Debug {
    /// A new ring: its areas are cleared.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout.
    fn begin(place: Place, options: Options) -> Result<Self, RingError>
    where
        Self: Sized;

    /// Descriptors that it has.
    fn size(&self) -> u16;

    /// Descriptors that are free.
    fn room(&self) -> u16;

    /// Makes a buffer available, of parts that the device reads and then parts that it writes; its number, below the ring's size and
    /// nobody else's until it comes back. `None`, and nothing, where there is no room for its descriptors, or it has no parts.
    /// The device sees it once it is published.
    fn add(&mut self, readable: &[Extent], writable: &[Extent]) -> Option<u16>;

    /// Shows the device all that was added, at once; whether there was anything.
    fn publish(&mut self) -> bool;

    /// Whether the device wants to be told of what was published since this was asked last.
    fn needs_kick(&mut self) -> bool;

    /// The next buffer that has come back, if any.
    ///
    /// # Errors
    /// [`RingError`]: the device breaks the rules, and the queue is not to be used any more.
    fn next_used(&mut self) -> Result<Option<Used>, RingError>;

    /// Asks to be told when a buffer comes back; false when one has already: look again.
    fn enable_notification(&mut self) -> bool;

    /// Asks to be told when three quarters of what is under way have come back; false when they have already.
    fn enable_notification_delayed(&mut self) -> bool;

    /// Asks not to be told: a hint.
    fn disable_notification(&mut self);

    /// Buffers that are with the device.
    fn outstanding(&self) -> u16;
}
