//! The common part of split and packed rings, for either side.

use super::{Chain, Memory, Place, RingError, Token, feature};

/// Agreed features, as far as they change a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// [`feature::EVENT_IDX`].
    pub event_idx: bool,
    /// [`feature::INDIRECT`].
    pub indirect: bool,
    /// [`feature::IN_ORDER`].
    pub in_order: bool,
}

/// Returns the words for the rings of negotiated features.
pub(crate) fn words(features: u64) -> &'static str {
    match (features & feature::PACKED != 0, features & feature::IN_ORDER != 0) {
        (false, false) => "split",
        (false, true) => "split, in order",
        (true, false) => "packed",
        (true, true) => "packed, in order",
    }
}

impl Options {
    /// Returns the options of negotiated features.
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
    /// Returns the number of descriptors.
    fn size(&self) -> u16;

    /// Takes the next buffer that the driver has made available, in order. Returns true if there was one.
    /// `chain` is overwritten.
    ///
    /// # Errors
    /// [`RingError`]: the driver breaks the rules, and the queue is not to be used any more.
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError>;

    /// Pops as many buffers of one descriptor each as there are `chains` for, while they are valid. Returns
    /// their number. [`DeviceRing::pop`] returns the next one, of any shape.
    fn pop_plain(&mut self, memory: &Memory, chains: &mut [Chain]) -> usize;

    /// Gives back the buffer that was popped last (then the one before that, and so on): it will be popped
    /// again. Allowed only before it was used.
    fn undo_pop(&mut self, token: Token);

    /// Gives a buffer back, into which `written_bytes` were written. With [`Options::in_order`] buffers must
    /// be used in the order in which they were popped. The driver sees it once it is published.
    fn put_used(&mut self, token: Token, written_bytes: u32);

    /// Gives each of `chains` back in turn by [`DeviceRing::put_used`], with nothing written into them.
    fn put_all_used(&mut self, chains: &[Chain]) {
        chains.iter().for_each(|chain| self.put_used(chain.token(), 0));
    }

    /// Shows the driver all used buffers at once. Returns true if there were any.
    fn publish(&mut self) -> bool;

    /// Returns true if the driver wants a notification of buffers published since the last call.
    fn needs_notification(&mut self) -> bool;

    /// Enables notifications of available buffers. Returns false if there are some already: look again.
    fn enable_notification(&mut self) -> bool {
        self.enable_notification_behind(0)
    }

    /// Works like [`DeviceRing::enable_notification`], behind the next buffers, of so many `descriptors`
    /// ([`Token::descriptors`]), that were popped and given back: they are too few.
    fn enable_notification_behind(&mut self, descriptors: u16) -> bool;

    /// Disables notifications: a hint.
    fn disable_notification(&mut self);

    /// Returns the position as GET_VRING_BASE answers it: the index of the next available buffer. For a
    /// packed ring bit 15 is the wrap counter, and the upper half is the same for the used side.
    fn next_avail(&self) -> u32;
}

/// Bytes at an address of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Their address.
    pub address: u64,
    /// Their number.
    pub len_bytes: u32,
}

/// A used buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Id of [`DriverRing::add`]. It is free from now on.
    pub id: u16,
    /// Bytes that the device has written into it, by its account; at most its room.
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
    /// Makes a new ring, with cleared areas.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout.
    fn new(place: Place, options: Options) -> Result<Self, RingError>
    where
        Self: Sized;

    /// Returns the number of descriptors.
    fn size(&self) -> u16;

    /// Returns the number of free descriptors.
    fn room(&self) -> u16;

    /// Makes a buffer available, of parts that the device reads and then parts that it writes. Returns its
    /// id, below the ring's size and unique until it comes back; `None` without room for its descriptors, or
    /// if it has no parts. The device sees it once it is published.
    fn add(&mut self, readable: &[Extent], writable: &[Extent]) -> Option<u16>;

    /// Shows the device all added buffers at once. Returns true if there were any.
    fn publish(&mut self) -> bool;

    /// Returns true if the device wants a notification of buffers published since the last call.
    fn needs_kick(&mut self) -> bool;

    /// Returns the next used buffer, if there is one.
    ///
    /// # Errors
    /// [`RingError`]: the device breaks the rules, and the queue is not to be used any more.
    fn next_used(&mut self) -> Result<Option<Used>, RingError>;

    /// Enables notifications of used buffers. Returns false if there are some already: look again.
    fn enable_notification(&mut self) -> bool;

    /// Enables a notification when three quarters of the buffers inside have come back. Returns false if they
    /// have already.
    fn enable_notification_delayed(&mut self) -> bool;

    /// Asks not to be told: a hint.
    fn disable_notification(&mut self);

    /// Returns the position of the device as SET_VRING_BASE announces it: behind the buffers that it has
    /// used. It uses no more.
    fn position(&self) -> u32;

    /// Buffers that are with the device.
    fn outstanding(&self) -> u16;
}
