//! Due times of frames.

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Rate of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Top speed: the path sets the rate.
    #[default]
    Top,
    /// By the capture's time stamps, thousandths of its own speed: see [`Pace::ORIGINAL`]. Generated packets
    /// have none, and go at top speed.
    Captured(u64),
    /// Packets per second, all senders together.
    Packets(u64),
    /// Thousandths of packets per second, likewise: for rates that are no whole number.
    Millipackets(u64),
    /// Bits of frames per second (without preamble, gap and check sequence), all senders together.
    Bits(u64),
}

/// Position of a frame in the traffic of all senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Frames before it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its capture time, after the first frame's.
    pub time_ns: u64,
}

impl Pace {
    /// A capture's own pace.
    pub const ORIGINAL: Self = Self::Captured(1000);

    /// True if it is by a capture's time stamps.
    pub fn is_captured(self) -> bool {
        matches!(self, Self::Captured(_))
    }

    /// True if nothing is ever waited for.
    pub fn is_top(self) -> bool {
        self == Pace::Top
    }

    /// Returns the time at which the frame at `position` is due, nanoseconds after the start.
    #[inline]
    pub fn due_ns(self, position: &Position) -> u64 {
        match self {
            Pace::Top => 0,
            Pace::ORIGINAL => position.time_ns,
            Pace::Captured(speed) => time_ns_by(position.time_ns, 1000, speed),
            Pace::Packets(rate) => time_ns(position.packets, rate),
            Pace::Millipackets(rate) => time_ns(position.packets.saturating_mul(1000), rate),
            Pace::Bits(rate) => time_ns(position.bytes.saturating_mul(8), rate),
        }
    }
}

/// Returns the time that `amount` takes at `rate` a second.
#[inline]
fn time_ns(amount: u64, rate: u64) -> u64 {
    time_ns_by(amount, NS_PER_SECOND, rate)
}

#[inline]
fn time_ns_by(amount: u64, unit: u64, rate: u64) -> u64 {
    let rate = rate.max(1);
    match amount.checked_mul(unit) {
        Some(product) => product / rate,
        // Beyond the first seconds or minutes: a wider division.
        None => u64::try_from(u128::from(amount) * u128::from(unit) / u128::from(rate)).unwrap_or(u64::MAX),
    }
}
