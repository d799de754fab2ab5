//! Sizes, rates and times as people write them: `64k`, `10gbit`, `1mpps`, `20us`.
//!
//! A number, with a decimal point if need be, and a unit in any case, with or without a space between. Values
//! are exact: a value that is no whole number of the smallest unit is an error, and nothing is rounded. The
//! case counts in one place: a rate with a capital B (`10MBps`) is meant in bytes, and refused.

use std::time::Duration;

/// The error for a text that is no number of its kind: one line that shows the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no {what}: {why}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    why: String,
}

/// A kind of number: the units that its texts may have.
struct Quantity {
    what: &'static str,
    /// Name of the smallest unit, which values count.
    smallest: &'static str,
    /// Names, in lower case, with the size of each in the smallest unit. An empty name allows a bare number.
    units: &'static [(&'static str, u64)],
    examples: &'static str,
}

const K: u64 = 1000;
const M: u64 = 1000 * K;
const G: u64 = 1000 * M;
const T: u64 = 1000 * G;

const SIZE: Quantity = Quantity {
    what: "size",
    smallest: "bytes",
    units: &[
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("t", 1 << 40),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("kb", K),
        ("mb", M),
        ("gb", G),
        ("tb", T),
    ],
    examples: "64k, 1m, 4GiB, 1500",
};

/// Prefixes of units of bytes.
const BYTES: [(&str, u64); 9] = [
    ("", 1),
    ("k", K),
    ("m", M),
    ("g", G),
    ("t", T),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
];

#[rustfmt::skip] // a unit a line, with all its names
const BIT_RATE: Quantity = Quantity {
    what: "bit rate",
    smallest: "bit/s",
    units: &[
        ("bit", 1), ("bit/s", 1), ("bps", 1),
        ("k", K), ("kbit", K), ("kbit/s", K), ("kbps", K),
        ("m", M), ("mbit", M), ("mbit/s", M), ("mbps", M),
        ("g", G), ("gbit", G), ("gbit/s", G), ("gbps", G),
        ("t", T), ("tbit", T), ("tbit/s", T), ("tbps", T),
    ],
    examples: "10gbit, 100mbit, 1g",
};

#[rustfmt::skip] // a unit a line, with all its names
const PACKET_RATE: Quantity = Quantity {
    what: "packet rate",
    smallest: "packets/s",
    units: &[
        ("", 1), ("pps", 1),
        ("k", K), ("kpps", K),
        ("m", M), ("mpps", M),
        ("g", G), ("gpps", G),
    ],
    examples: "1mpps, 100kpps, 5000",
};

const DURATION: Quantity = Quantity {
    what: "time",
    smallest: "nanoseconds",
    units: &[
        ("ns", 1),
        ("us", K),
        ("µs", K), // the micro sign
        ("μs", K), // the Greek letter
        ("ms", M),
        ("s", G),
        ("min", 60 * G),
        ("h", 3600 * G),
    ],
    examples: "1ms, 20us, 1.5s",
};

const SHARE: Quantity =
    Quantity { what: "share", smallest: "millionths", units: &[("%", 10_000)], examples: "1%, 0.05%" };

/// Bytes: `64k`, `1m`, `4GiB`, `1500`. k, m, g and t are powers of 1024, as are KiB and so on; kB, MB, GB and
/// TB are powers of 1000.
///
/// # Errors
/// [`UnitError`].
pub fn size_bytes(text: &str) -> Result<u64, UnitError> {
    SIZE.read(text)
}

/// Bits per second: `10gbit`, `100mbit`, `1g`, `9600bit`, `10Gbps`. Powers of 1000; the unit must be there.
///
/// # Errors
/// [`UnitError`].
pub fn bits_per_second(text: &str) -> Result<u64, UnitError> {
    no_bytes_per_second(text)?;
    BIT_RATE.read(text)
}

/// Refuses a rate whose unit is of bytes, such as `10MBps`, `10MB/s` and `5kbyte`.
///
/// # Errors
/// [`UnitError`] that says how to write it in bits.
pub fn no_bytes_per_second(text: &str) -> Result<(), UnitError> {
    let (number, unit) = parts(text);
    let Some(bytes) = bytes_scale(unit).filter(|_| !number.is_empty()) else { return Ok(()) };
    let why = match BIT_RATE.scaled(number, 8 * bytes) {
        Ok(bits) => format!("\"{unit}\" is of bytes: write {}", shortest(bits)),
        Err(_) => format!("\"{unit}\" is of bytes: write it in bits, like {}", BIT_RATE.examples),
    };
    Err(BIT_RATE.fault(text, why))
}

/// Returns the bytes of a unit of bytes, or of bytes per second: `MBps`, `kB`, `MiB/s`, `gbyte/s`. A
/// lower-case `b` alone is a bit's, and so is a `B` where all is in capitals (`MBPS`).
fn bytes_scale(unit: &str) -> Option<u64> {
    let unit = ["/s", "/S", "ps", "/sec"].iter().find_map(|per| unit.strip_suffix(per)).unwrap_or(unit);
    let lower = unit.to_lowercase();
    let prefix = ["bytes", "byte"].iter().find_map(|name| lower.strip_suffix(name));
    let prefix = prefix.or_else(|| unit.ends_with('B').then(|| &lower[..lower.len() - 1]))?;
    BYTES.iter().find(|(name, _)| *name == prefix).map(|&(_, bytes)| bytes)
}

/// Returns bits per second with the largest unit of which they are a whole number.
fn shortest(bits: u64) -> String {
    let units = [(T, "tbit"), (G, "gbit"), (M, "mbit"), (K, "kbit")].into_iter();
    let unit = units.into_iter().find(|(scale, _)| bits > 0 && bits.is_multiple_of(*scale));
    unit.map_or_else(|| format!("{bits}bit"), |(scale, name)| format!("{}{name}", bits / scale))
}

/// Packets per second: `1mpps`, `100kpps`, `5000pps`, `5000`. Powers of 1000.
///
/// # Errors
/// [`UnitError`].
pub fn packets_per_second(text: &str) -> Result<u64, UnitError> {
    PACKET_RATE.read(text)
}

/// Thousandths of packets per second: `0.2pps` is 200 of them, `1kpps` a million.
///
/// # Errors
/// [`UnitError`].
pub fn millipackets_per_second(text: &str) -> Result<u64, UnitError> {
    PACKET_RATE.read_in(text, K)
}

/// A time: `20us`, `1ms`, `1.5s`, `2min`, `1h`, `0`.
///
/// # Errors
/// [`UnitError`].
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    DURATION.read(text).map(Duration::from_nanos)
}

/// Millionths: `1%` is 10 000 of them, `0.05%` 500. The sign must be there.
///
/// # Errors
/// [`UnitError`].
pub fn share_millionths(text: &str) -> Result<u64, UnitError> {
    SHARE.read(text)
}

/// Splits a text into its number and its unit.
fn parts(text: &str) -> (&str, &str) {
    let trimmed = text.trim();
    let start = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(start);
    (number, unit.trim_start())
}

impl Quantity {
    fn read(&self, text: &str) -> Result<u64, UnitError> {
        self.read_in(text, 1)
    }

    /// Reads a number of parts, of which the smallest unit has so many.
    fn read_in(&self, text: &str, parts_each: u64) -> Result<u64, UnitError> {
        let (number, unit) = parts(text);
        if number.is_empty() {
            return Err(self.no_number(text));
        }
        let unit = unit.to_lowercase();
        let Some(&(_, scale)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.fault(text, format!("write it like {}", self.examples)));
        };
        self.scaled(number, scale * parts_each).map_err(|why| self.fault(text, why))
    }

    fn no_number(&self, text: &str) -> UnitError {
        let why = match text.trim().chars().next() {
            Some('-') => format!("it cannot be negative; write it like {}", self.examples),
            _ => format!("write it like {}", self.examples),
        };
        self.fault(text, why)
    }

    /// `number` times `scale`, exactly; or why that cannot be.
    fn scaled(&self, number: &str, scale: u64) -> Result<u64, String> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.trim_end_matches('0');
        if whole.is_empty() && number.len() == 1 || fraction.contains('.') {
            return Err(format!("write it like {}", self.examples));
        }
        let too_large = || format!("it is beyond {} {}", u64::MAX, self.smallest);
        let too_fine = || format!("it is no whole number of {}", self.smallest);
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
        // Beyond 14 places no unit here comes out whole.
        let power = u32::try_from(fraction.len()).ok().filter(|&power| power <= 14).ok_or_else(too_fine)?;
        let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_fine())? };
        let parts = parts * u128::from(scale);
        if !parts.is_multiple_of(10u128.pow(power)) {
            return Err(too_fine());
        }
        let sum = whole.checked_mul(scale.into()).and_then(|sum| sum.checked_add(parts / 10u128.pow(power)));
        sum.and_then(|sum| u64::try_from(sum).ok()).ok_or_else(too_large)
    }

    fn fault(&self, text: &str, why: String) -> UnitError {
        let text = text.escape_debug().to_string();
        UnitError { text, what: self.what, why }
    }
}
