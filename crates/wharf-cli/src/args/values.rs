//! Values as people write them. Each error says what is allowed.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;
use wharf_core::bql::{Bounds, MAX_LIMIT_BYTES};
use wharf_core::engine::Batching;
use wharf_core::options::OptionError;
use wharf_core::poller::Mode;
use wharf_core::qdisc::{
    self, QdiscRegistry, QdiscSetup, QdiscSpec, Rate, TBF_BURST_BYTES_MAX, TBF_PACKETS_MAX, TBF_RATE_MAX,
};
use wharf_core::small_queue::{SMALL_QUEUE_BOUNDS, SMALL_QUEUE_BYTES};
use wharf_devices::registry::Registry;
use wharf_devices::spec::DeviceSpec;
use wharf_devices::units;
use wharf_mem::FRAME_BYTES_MAX;
use wharf_tools::traffic::Pace;

const SECONDS_MAX: u64 = 365 * 24 * 3600;
/// Most senders of a queue.
pub const SENDERS_MAX: u16 = 1024;
pub(super) const QUEUES_MAX: u32 = 64;
/// Least memory of a forwarder: with fewer frames the share of each cache would be next to nothing.
pub(super) const FORWARD_FRAMES_MIN: u32 = 64;
/// Most frames of memory.
pub const FRAMES_MAX: u32 = 1 << 24;
/// Most packets of a burst.
pub const BURST_MAX: usize = wharf_mem::batch::BATCH_FRAMES_MAX;

/// Ethernet addresses: source, then destination.
pub(crate) type Macs = [[u8; 6]; 2];

/// The policy of a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WhenFull {
    /// Senders wait, in turn
    Wait,
    /// Packets that do not fit are dropped
    DropTail,
    /// The packets that have waited longest are dropped; with fq_codel those of the flow with the most bytes
    DropHead,
}

impl From<WhenFull> for qdisc::WhenFull {
    /// With `drop-tail` the senders drop, not the discipline.
    fn from(when_full: WhenFull) -> Self {
        match when_full {
            WhenFull::DropHead => Self::DropHead,
            WhenFull::Wait | WhenFull::DropTail => Self::Wait,
        }
    }
}

impl WhenFull {
    /// Reads a policy as its option has it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        want(Self::from_str(text, false).ok(), "wait, drop-tail or drop-head")
    }

    /// Returns the policy as its option has it.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    /// Returns the discipline's settings besides its own options, with a hash seed of this process.
    pub(crate) fn setup(self) -> QdiscSetup {
        QdiscSetup { when_full: self.into(), seed: RandomState::new().hash_one(std::process::id()) }
    }
}

/// A word that an option takes, its help, and its value.
pub(super) type Choice<T> = (&'static str, &'static str, T);

/// Makes a reader of one of `choices`.
pub(super) fn choice<T: Copy + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(words).try_map(|read| {
        let chosen = choices.iter().find(|(word, ..)| *word == read);
        chosen.map(|(.., value)| *value).ok_or("want a word of the list")
    })
}

/// The modes in which a thread waits for its devices.
pub(super) const POLL: &[Choice<Mode>] = &[
    ("busy", "Never: it polls without end, and keeps a processor busy", Mode::Busy),
    ("adaptive", "It polls on for a while if a packet came not long ago, then sleeps", Mode::Adaptive),
    ("sleeping", "It sleeps as soon as it is idle", Mode::Sleeping),
];

/// Reads a device of the kinds of `wharf-devices`; [`crate::command_line::definition`] has the program's registry read it instead.
pub fn device(text: &str) -> Result<DeviceSpec, OptionError> {
    Registry::default().parse(text)
}

/// Returns the value read, or the error that says what is allowed.
fn want<T>(read: Option<T>, allowed: &str) -> Result<T, String> {
    read.ok_or_else(|| format!("want {allowed}"))
}

/// Reads a size in bytes.
fn size(text: &str) -> Option<u32> {
    units::size_bytes(text).ok().and_then(|bytes| u32::try_from(bytes).ok())
}

/// Reads the rate of a token bucket.
pub(crate) fn bucket_rate(text: &str) -> Result<Rate, String> {
    let rate = match read_rate(text)? {
        Some(Pace::Bits(bits @ 8000..=TBF_RATE_MAX)) => Some(Rate::new(bits)),
        Some(Pace::Packets(packets @ 1..=TBF_PACKETS_MAX)) => Some(Rate::packets(packets)),
        _ => None,
    };
    want(rate, "a rate from 8kbit to 1tbit, such as 100mbit, or of packets, such as 10kpps")
}

pub(crate) fn token_bytes(text: &str) -> Result<u64, String> {
    let bytes = units::size_bytes(text).ok().filter(|bytes| (1514..=TBF_BURST_BYTES_MAX).contains(bytes));
    want(bytes, "a size from 1514 to 1g, such as 64k")
}

/// Reads a discipline of the kinds of `wharf-core`; [`crate::command_line::definition`] has the program's registry read it instead.
pub(super) fn qdisc(text: &str) -> Result<QdiscSpec, OptionError> {
    QdiscRegistry::default().parse(text)
}

/// The most bytes that one sender may have inside; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmallQueues(pub(crate) Option<u32>);

pub(crate) fn small_queues(text: &str) -> Result<SmallQueues, String> {
    let read = match text {
        "on" => Some(SmallQueues(Some(SMALL_QUEUE_BYTES))),
        "off" => Some(SmallQueues(None)),
        text => size(text)
            .filter(|bytes| SMALL_QUEUE_BOUNDS.contains(bytes))
            .map(|bytes| SmallQueues(Some(bytes))),
    };
    want(read, "on, off or a size from 4k to 1g, such as 64k")
}

pub(crate) fn batching(text: &str) -> Result<Batching, String> {
    let read = match text {
        "on" => Some(Batching::On),
        "off" => Some(Batching::Off),
        _ => text.strip_prefix("bytes=").and_then(size).filter(|&bytes| bytes > 0).map(Batching::Bytes),
    };
    want(read, "on, off or bytes=N, such as bytes=16k")
}

pub(crate) fn byte_limits(text: &str) -> Result<Bounds, String> {
    let bytes = |text: &str| size(text).filter(|bytes| (1..=MAX_LIMIT_BYTES).contains(bytes));
    let bounds = |text: &str| {
        text.split(',').try_fold(Bounds::LEARN, |bounds, part| match part.split_once('=')? {
            ("min", size) => Some(Bounds { min_bytes: bytes(size)?, ..bounds }),
            ("max", size) => Some(Bounds { max_bytes: bytes(size)?, ..bounds }),
            ("gather", "off") => Some(bounds),
            ("gather", time) => Some(Bounds { gather_ns: gather_ns(time)?, ..bounds }),
            _ => None,
        })
    };
    let read = match text {
        "on" => Some(Bounds::LEARN),
        "off" => Some(Bounds::OFF),
        text => bounds(text).filter(|bounds| bounds.min_bytes <= bounds.max_bytes),
    };
    want(read, "on, off, min=SIZE, max=SIZE or gather=TIME (1us to 10ms), or several, such as min=4k,max=64k")
}

fn gather_ns(text: &str) -> Option<u64> {
    let time = units::duration(text).ok()?;
    u64::try_from(time.as_nanos()).ok().filter(|ns| (1000..=10_000_000).contains(ns))
}

pub(super) fn tos(text: &str) -> Result<u8, String> {
    let hex = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()));
    let read = hex.map_or_else(|| text.parse().ok(), |digits| u8::from_str_radix(digits, 16).ok());
    want(read, "a number from 0 to 255, or 0x00 to 0xff")
}

pub(super) fn gso(text: &str) -> Result<u32, String> {
    want(size(text).filter(|bytes| (1..=65536).contains(bytes)), "a size up to 64k, such as 16k")
}

pub(super) fn speed(text: &str) -> Result<Pace, String> {
    let read = match text {
        "top" => Some(Pace::Top),
        "original" => Some(Pace::ORIGINAL),
        text => captured_pace(text).map_or_else(|| read_rate(text), |pace| Ok(Some(pace)))?,
    };
    want(read, "a rate with its unit, such as 1mpps, 20mbit or 1g; or top, original, or 2x")
}

/// Reads a multiple of a capture's own pace, such as 2x, from 0.001x to 1000000x.
fn captured_pace(text: &str) -> Option<Pace> {
    let factor = text.strip_suffix(['x', 'X'])?;
    let is_plain = factor.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let speed = units::millipackets_per_second(&format!("{factor}pps")).ok()?;
    (is_plain && (1..=1_000_000_000).contains(&speed)).then_some(Pace::Captured(speed))
}

/// Reads a rate in packets or bits per second.
pub fn rate(text: &str) -> Result<Pace, String> {
    want(read_rate(text)?, "a rate with its unit, such as 1mpps, 20mbit or 1g")
}

/// Reads packets or bits per second, distinguished by the unit: k, m and g alone are of bits. A rate in bytes
/// is an error of its own.
fn read_rate(text: &str) -> Result<Option<Pace>, String> {
    units::no_bytes_per_second(text).map_err(|error| error.to_string())?;
    let lower = text.to_lowercase();
    let read = if lower.contains("pps") {
        let whole = units::packets_per_second(text).map(Pace::Packets);
        whole.or_else(|_| units::millipackets_per_second(text).map(Pace::Millipackets)).ok()
    } else {
        units::bits_per_second(text).map(Pace::Bits).ok()
    };
    Ok(read.filter(|&pace| pace != Pace::Packets(0) && pace != Pace::Bits(0)))
}

/// Reads a count, in powers of 1000 if there is a unit.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let plain = !text.to_lowercase().contains('p');
    let read = units::packets_per_second(text).ok().filter(|&count| plain && (1..u64::MAX).contains(&count));
    want(read, "a number from 1 on, such as 1000, 64k or 1m (powers of 1000)")
}

/// Reads a number of rounds; 0 stands for rounds without end.
pub(super) fn rounds(text: &str) -> Result<u64, String> {
    let read = if text == "0" { Some(u64::MAX) } else { count(text).ok() };
    want(read, "a number of rounds, such as 10 or 1k, or 0 for rounds until a signal")
}

/// Reads a time to catch up with, or `all`.
pub(super) fn catch_up(text: &str) -> Result<Duration, String> {
    if text == "all" { Ok(Duration::MAX) } else { seconds(text).map_err(|error| format!("{error}, or all")) }
}

/// Reads a time. A plain number is in seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let read = if is_plain { units::duration(&format!("{text}s")) } else { units::duration(text) };
    let read = read.ok().filter(|time| !time.is_zero() && time.as_secs() <= SECONDS_MAX);
    want(read, "a time above 0, at most a year: 2, 0.5, 300ms or 1min")
}

/// Reads `PORT=VLANS`.
pub fn vlan(text: &str) -> Result<(String, String), String> {
    let read = text.rsplit_once('=').map(|(port, vlans)| (port.into(), vlans.into()));
    want(read, "a port and its VLANs: tap:a=10 or tap:a=10+20")
}

/// Makes a reader of times from `least_ms` on.
pub(super) fn seconds_from(least_ms: u128) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let read = seconds(text).ok().filter(|time| time.as_millis() >= least_ms);
        want(read, &format!("a time from {least_ms}ms to a year: 2, 0.5, 300ms or 1min"))
    }
}

/// The time without a completion that a run gives up after is several looks long, at least.
pub(super) const GIVE_UP_MS_MIN: u128 = 100;
/// Least time between two lines of counters.
pub(super) const INTERVAL_MS_MIN: u128 = 10;

pub(super) fn macs(text: &str) -> Result<Macs, String> {
    let mac = |text: &str| {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part =
                parts.next().filter(|part| part.len() <= 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(bytes)
    };
    let pair = text.split_once(',').and_then(|(source, destination)| Some([mac(source)?, mac(destination)?]));
    want(pair, "source and destination, such as 02:00:00:00:00:01,02:00:00:00:00:02")
}

/// Makes a reader of numbers within `range`.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Clone,
{
    move |text| {
        let read = text.parse().ok().filter(|number| range.contains(number));
        want(read, &format!("a number from {} to {}", range.start(), range.end()))
    }
}

pub(super) fn memory_bytes(text: &str) -> Result<u32, String> {
    let bytes = size(text).filter(|bytes| bytes % 64 == 0 && (128..=FRAME_BYTES_MAX).contains(bytes));
    want(bytes, &format!("a multiple of 64 from 128 to {FRAME_BYTES_MAX}"))
}

/// Reads the seed of a generator.
pub fn seed(text: &str) -> Result<u64, String> {
    want(text.parse().ok(), "a whole number from 0 to 18446744073709551615")
}

/// Reads the number of a processor.
pub fn cpu(text: &str) -> Result<usize, String> {
    want(text.parse().ok(), "numbers of processors, such as 0,1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_limits_have_bounds() {
        assert_eq!((byte_limits("on"), byte_limits("off")), (Ok(Bounds::LEARN), Ok(Bounds::OFF)));
        let max = Bounds { max_bytes: 65536, ..Bounds::LEARN };
        assert_eq!(byte_limits("max=64k"), Ok(max));
        assert_eq!(byte_limits("min=4k,max=64k"), Ok(Bounds { min_bytes: 4096, ..max }));
        assert_eq!(byte_limits("max=64k,gather=100us"), Ok(Bounds { gather_ns: 100_000, ..max }));
        let late = ["gather=", "gather=1ns", "gather=1s", "gather=on"];
        for wrong in
            ["", "64k", "max=", "max=0", "max=4g", "min=64k,max=4k", "on,off"].into_iter().chain(late)
        {
            assert!(byte_limits(wrong).is_err(), "{wrong}");
        }
        assert_eq!((tos("0x10"), tos("184"), gso("16k")), (Ok(16), Ok(184), Ok(16384)));
        for wrong in ["", "256", "0x", "0x+1", "0x100", "ef", "-1"] {
            assert!(tos(wrong).is_err(), "{wrong}");
        }
        assert!(gso("0").is_err() && gso("65k").is_err());
    }

    #[test]
    fn rates_say_what_they_count() {
        assert_eq!(rate("2.5gbit"), Ok(Pace::Bits(2_500_000_000)));
        assert_eq!(rate("1Mpps"), Ok(Pace::Packets(1_000_000)));
        assert_eq!(
            [rate("0.2pps"), rate("0.0005kpps")],
            [Ok(Pace::Millipackets(200)), Ok(Pace::Millipackets(500))]
        );
        assert_eq!(speed("original"), Ok(Pace::ORIGINAL));
        assert_eq!([speed("2x"), speed("0.5X")], [2000, 500].map(|speed| Ok(Pace::Captured(speed))));
        assert!(["x", "0x", "-1x", "1kx", "2e3x", "2000000x"].iter().all(|wrong| speed(wrong).is_err()));
        assert_eq!((rate("1g"), rate("20m")), (Ok(Pace::Bits(1_000_000_000)), Ok(Pace::Bits(20_000_000))));
        assert_eq!((rounds("0"), rounds("1k")), (Ok(u64::MAX), Ok(1000)));
        for wrong in ["", "5", "0pps", "0gbit", "fast", "-1pps", "1kg", "0.0001pps"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_values_have_bounds() {
        assert_eq!((count("1m"), count("12")), (Ok(1_000_000), Ok(12)));
        assert_eq!(
            (seconds("0.2"), seconds("1min")),
            (Ok(Duration::from_millis(200)), Ok(Duration::from_secs(60)))
        );
        assert_eq!(batching("bytes=16k"), Ok(Batching::Bytes(16384)));
        assert_eq!(macs("02:0:0:0:0:1,ff:ff:ff:ff:ff:ff"), Ok([[2, 0, 0, 0, 0, 1], [255; 6]]));
        for wrong in ["0", "1mpps", "x", "-1", ""] {
            assert!(count(wrong).is_err() && seconds(wrong).is_err() && batching(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "02:00:00:00:00:01",
            "2:0:0:0:0:1,2:0:0:0:0",
            "2:0:0:0:0:1:7,2:0:0:0:0:1",
            "+2:0:0:0:0:1,1:1:1:1:1:1",
        ] {
            assert!(macs(wrong).is_err(), "{wrong}");
        }
        assert!(memory_bytes("2047").is_err() && memory_bytes("4k").is_ok());
        assert!(memory_bytes("262656").is_ok() && memory_bytes("262720").is_err());
        let vlan = number(1u16..=4094);
        assert_eq!((vlan("1"), vlan("4094")), (Ok(1), Ok(4094)));
        assert_eq!(vlan("4095"), Err("want a number from 1 to 4094".into()));
    }
}
