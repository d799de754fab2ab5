//! `Backpressure`: the state of a discipline's limit, by band. `WhenFull`: the effect of the limit.

use wharf_mem::frame::BANDS_MAX;

const BANDS: usize = BANDS_MAX as usize;
const ALL: u32 = (1 << BANDS) - 1;

/// The reason of frames that a full discipline drops from its head.
pub const DROP_HEAD: &str = "drop-head";

/// Effect of a discipline's limit when it is reached. A sender that drops its own packets in place of waiting
/// is [`crate::sender::Sender::send_or_drop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Senders wait.
    #[default]
    Wait,
    /// The discipline drops frames that it has, and takes the new ones. Which ones is its own policy: FIFOs
    /// drop the oldest, for traffic whose newest packets matter most; `fq_codel` drops from the flow with the
    /// most bytes.
    DropHead,
}

/// State of a discipline's limit, by band. Senders of a full band wait. They are woken when it has drained to
/// half its limit, since at the limit each packet that leaves would wake one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backpressure {
    full: u32,
    drained: u32,
    room: [usize; BANDS],
}

impl Backpressure {
    /// One limit for all bands: it has room for about `room` frames, and has drained to half if `is_drained`.
    pub fn of_all(room: usize, is_drained: bool) -> Self {
        let bits = |set: bool| if set { ALL } else { 0 };
        Self { full: bits(room == 0), drained: bits(is_drained), room: [room; BANDS] }
    }

    /// The same, of a discipline that drops: no sender waits for it, and it is full only while it is over its
    /// limit.
    pub fn of_dropping(is_over: bool) -> Self {
        Self::of_all(if is_over { 0 } else { usize::MAX }, true)
    }

    /// Sets the bands from `band` on.
    #[must_use]
    pub fn from_band(mut self, band: u8, of_band: Self) -> Self {
        let bits = ALL & u32::MAX << band.min(BANDS_MAX);
        self.full = self.full & !bits | of_band.full & bits;
        self.drained = self.drained & !bits | of_band.drained & bits;
        self.room.iter_mut().skip(band.into()).for_each(|room| *room = of_band.room[0]);
        self
    }

    /// Returns a word in which bit n is set while band n is full.
    pub fn full_bands(&self) -> u32 {
        self.full
    }

    /// Returns the number of frames, about, that `band` takes until it is full.
    pub fn room(&self, band: u8) -> usize {
        self.room[usize::from(band).min(BANDS - 1)]
    }

    /// True if `band` has drained to half its limit.
    pub fn has_drained(&self, band: u8) -> bool {
        self.drained & 1 << band.min(BANDS_MAX - 1) != 0
    }
}
