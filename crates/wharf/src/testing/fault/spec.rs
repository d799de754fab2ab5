//! The faults to inject, read from `seed=7,stall=1%:2ms,short=10%`.

use std::time::Duration;
use wharf_core::options::{Key, OptionError, Options, split};
use wharf_core::units;

/// The longest stall, freeze or delay of a completion.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The keys of `--fault`.
pub const KEYS: &[Key] = &[
    Key::text("seed", "1", "Number that chance depends on: the same seed, the same faults"),
    Key::text("error", "0%", "Frames that fail when they are handed over"),
    Key::text("short", "0%", "Calls to transmit that take only a part of a batch"),
    Key::text("stall", "0%:1ms", "Calls after which the device stands still, and for how long"),
    Key::text("lost", "0%", "Completions that are not notified"),
    Key::text("late", "0%:100us", "Completions that come late, and by how much"),
    Key::text("reorder", "0%", "Frames that up to eight later completions overtake"),
    Key::text("alloc", "0%", "Allocations that fail"),
    Key::text("never", "0%", "Completions that never come, until the device is closed"),
    Key::text(
        "freeze",
        "0%:1s",
        "Calls after which the device does nothing at all, without a word, and for how long",
    ),
    Key::text(
        "half",
        "0%",
        "Completions and receptions of which only a first part comes at once, the rest unannounced",
    ),
];

/// The chance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chance {
    /// Zero.
    #[default]
    Never,
    /// By chance, in millionths: at most 1 000 000.
    Millionths(u32),
    /// Every n-th time exactly, n from 1 on.
    Every(u64),
}

/// The faults that a [`super::Fault`] injects. [`FaultSpec::parse`] reads one; each field can be set as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSpec {
    /// Seed of all chance: the same seed gives the same faults. 1 by default.
    pub seed: u64,
    /// Frames that fail when they are handed over, with the reason [`FaultSpec::INJECTED`].
    pub error: Chance,
    /// Calls to transmit that take only a part of a batch.
    pub short: Chance,
    /// Calls to transmit, and receptions, after which the device stands still.
    pub stall: Chance,
    /// Length of a stall, 1 ms by default.
    pub stall_time: Duration,
    /// Completions without a notification: the caller finds them when it looks again by itself.
    pub lost: Chance,
    /// Frames whose completion comes late, and delays those behind it.
    pub late: Chance,
    /// Delay of a late completion, 100 us by default.
    pub late_time: Duration,
    /// Frames that up to eight later completions overtake.
    pub reorder: Chance,
    /// Allocations that fail: takes of a sender ([`FaultSpec::failing_takes`]), frames of a receiving device.
    pub alloc: Chance,
    /// Frames whose completion never comes: the device has them until it is closed.
    pub never: Chance,
    /// Calls that took, completed or received frames, after which the device does nothing at all, and does not say when it goes on.
    pub freeze: Chance,
    /// Length of a freeze, 1 s by default.
    pub freeze_time: Duration,
    /// Calls that fetch completions or receive of which only a first part comes at once. The next call finds the rest, without a
    /// notification.
    pub half: Chance,
}

impl Default for FaultSpec {
    /// Makes a specification without faults.
    fn default() -> Self {
        let never = Chance::Never;
        Self {
            seed: 1,
            error: never,
            short: never,
            stall: never,
            stall_time: Duration::from_millis(1),
            lost: never,
            late: never,
            late_time: Duration::from_micros(100),
            reorder: never,
            alloc: never,
            never,
            freeze: never,
            freeze_time: Duration::from_secs(1),
            half: never,
        }
    }
}

impl FaultSpec {
    /// Reason of frames that failed by injection.
    pub const INJECTED: &str = "injected";

    /// Reads `key=value,...`. `seed` is a number. Every other value is a chance: `1%`, `0.05%`, or `1/100` for exactly every hundredth.
    /// `stall`, `late` and `freeze` take a time behind a colon: `stall=1%:5ms`.
    ///
    /// # Errors
    /// [`OptionError`]: one line that says what is allowed.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let parts = split(text);
        let parts = if text.is_empty() { &[] } else { &parts[..] };
        let options = Options::parse("fault", parts.iter().map(String::as_str), &[KEYS])?;
        let mut spec = Self::default();
        if let Some(seed) = options.text("seed") {
            let wrong = || options.fault(format!("seed: \"{}\" is no number such as 7", seed.escape_debug()));
            spec.seed = seed.parse().map_err(|_| wrong())?;
        }
        let with_time = [
            ("stall", &mut spec.stall, &mut spec.stall_time),
            ("late", &mut spec.late, &mut spec.late_time),
            ("freeze", &mut spec.freeze, &mut spec.freeze_time),
        ];
        for (key, chance, time) in with_time {
            let value = options.text(key).unwrap_or("0%");
            let (first, rest) =
                value.split_once(':').map_or((value, None), |(first, rest)| (first, Some(rest)));
            *chance = read_chance(&options, key, first)?;
            if let Some(rest) = rest {
                *time = read_time(&options, key, rest)?;
            }
        }
        for (key, chance) in [
            ("error", &mut spec.error),
            ("short", &mut spec.short),
            ("lost", &mut spec.lost),
            ("reorder", &mut spec.reorder),
            ("alloc", &mut spec.alloc),
            ("never", &mut spec.never),
            ("half", &mut spec.half),
        ] {
            *chance = read_chance(&options, key, options.text(key).unwrap_or("0%"))?;
        }
        if spec == (Self { seed: spec.seed, ..Self::default() }) {
            return Err(options.fault("that is no fault: name at least one, such as stall=1%"));
        }
        Ok(spec)
    }
}

/// Reads `1%` or `1/100`.
fn read_chance(options: &Options, key: &str, value: &str) -> Result<Chance, OptionError> {
    let wrong = |why: &str| {
        options.fault(format!(
            "{key}: \"{}\" is no chance: {why}; write it like 1%, 0.05% or 1/100",
            value.escape_debug()
        ))
    };
    if let Some(period) = value.strip_prefix("1/") {
        return match period.parse() {
            Ok(0) | Err(_) => Err(wrong("one in how many?")),
            Ok(period) => Ok(Chance::Every(period)),
        };
    }
    match units::share_millionths(value) {
        Ok(0) => Ok(Chance::Never),
        Ok(millionths @ 1..=1_000_000) => Ok(Chance::Millionths(millionths as u32)),
        Ok(_) => Err(wrong("100% is the most")),
        Err(_) => Err(wrong("a share with its %")),
    }
}

fn read_time(options: &Options, key: &str, value: &str) -> Result<Duration, OptionError> {
    match units::duration(value) {
        Ok(time) if time <= TIME_MAX => Ok(time),
        Ok(_) => Err(options.fault(format!("{key}: {value} is beyond {TIME_MAX:?}"))),
        Err(error) => Err(options.fault(format!("{key}: {error}"))),
    }
}
