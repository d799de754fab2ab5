//! Numbers with units, as options write them.

use proptest::prelude::*;
use std::time::Duration;
use wharf_core::units::*;

const G: u64 = 1_000_000_000;
const T: u64 = 1_000_000_000_000;

type Read = fn(&str) -> Result<u64, UnitError>;

fn check(read: Read, cases: &[(&str, u64)]) {
    for &(text, value) in cases {
        assert_eq!(read(text), Ok(value), "{text:?}");
        assert_eq!(read(&format!("  {} ", text.to_uppercase())), Ok(value), "{text:?} in capitals");
    }
}

fn duration_ns(text: &str) -> Result<u64, UnitError> {
    duration(text).map(|duration| duration.as_nanos() as u64)
}

const ALL: [Read; 5] = [size_bytes, bits_per_second, packets_per_second, duration_ns, share_millionths];

#[test]
fn shares() {
    check(
        share_millionths,
        &[("1%", 10_000), ("0.05%", 500), ("100 %", 1_000_000), ("0.0001%", 1), ("0%", 0)],
    );
}

#[test]
fn sizes() {
    let cases = [
        ("0", 0),
        ("1500", 1500),
        ("1500b", 1500),
        ("64k", 65536),
        ("1m", 1 << 20),
        ("1.5k", 1536),
        ("2g", 2 << 30),
        ("1t", 1 << 40),
        ("64kib", 65536),
        ("64 kib", 65536),
        ("0.5mib", 1 << 19),
        ("4gib", 4 << 30),
        ("1tib", 1 << 40),
        ("64kb", 64_000),
        ("1.001mb", 1_001_000),
        ("1gb", G),
        ("1tb", T),
        ("18446744073709551615", u64::MAX),
        ("16777215.5t", 18_446_743_523_953_737_728),
        ("0.0009765625k", 1),
        ("00012", 12),
        ("1.", 1),
        (".5k", 512),
        ("1.50000000000000000000000000000000000000000k", 1536),
    ];
    check(size_bytes, &cases);
}

#[test]
fn bit_rates() {
    let cases = [
        ("9600bit", 9600),
        ("9600bps", 9600),
        ("9600 bit/s", 9600),
        ("56kbit", 56_000),
        ("100mbit", 100_000_000),
        ("10gbit", 10_000_000_000),
        ("10gbit/s", 10_000_000_000),
        ("10gbps", 10_000_000_000),
        ("2.5g", 2_500_000_000),
        ("1k", 1000),
        ("1m", 1_000_000),
        ("1.6tbit", 1_600_000_000_000),
        ("0.1gbit", 100_000_000),
        ("0.000000001g", 1),
        ("0bit", 0),
    ];
    check(bits_per_second, &cases);
}

#[test]
fn a_rate_in_bytes_is_refused_with_the_same_in_bits() {
    let cases = [
        ("10MBps", "80mbit"),
        ("10 MBps", "80mbit"),
        ("1GBps", "8gbit"),
        ("1gBps", "8gbit"),
        ("250kBps", "2mbit"),
        ("250KBps", "2mbit"),
        ("3Bps", "24bit"),
        ("1.5MB/s", "12mbit"),
        ("0.001MBps", "8kbit"),
        ("1TB/s", "8tbit"),
        ("10MB", "80mbit"),
        ("1MiB/s", "8388608bit"),
        ("1GiBps", "8589934592bit"),
        ("5kbyte", "40kbit"),
        ("5Mbyte/s", "40mbit"),
        ("5 MBytes/s", "40mbit"),
        ("7bytes/s", "56bit"),
        ("0MBps", "0bit"),
    ];
    for (text, bits) in cases {
        let error = bits_per_second(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text:?} is no bit rate: ")), "{error}");
        assert!(error.ends_with(&format!("is of bytes: write {bits}")), "{error}");
        assert!(bits_per_second(bits).is_ok(), "{bits}");
    }
    for text in ["0.3Bps", "99999999999999999999MBps"] {
        let error = bits_per_second(text).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
    // Bits, as ever: no case is one of bytes but a capital B.
    for text in ["10mbps", "10Mbps", "10MBPS", "10Mbit/s", "10MBit/s", "10m", "10M"] {
        assert_eq!(bits_per_second(text), Ok(10_000_000), "{text}");
    }
}

#[test]
fn packet_rates() {
    let cases = [
        ("5000", 5000),
        ("5000pps", 5000),
        ("100kpps", 100_000),
        ("1mpps", 1_000_000),
        ("14.88mpps", 14_880_000),
        ("1.2gpps", 1_200_000_000),
        ("3k", 3000),
        ("3m", 3_000_000),
        ("1g", G),
    ];
    check(packets_per_second, &cases);
}

#[test]
fn durations() {
    let cases = [
        ("0", 0),
        ("0s", 0),
        ("7ns", 7),
        ("20us", 20_000),
        ("1ms", 1_000_000),
        ("1.5s", 1_500_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0.25us", 250),
        ("0.000000001s", 1),
    ];
    check(duration_ns, &cases);
    assert_eq!(duration("20µs"), Ok(Duration::from_micros(20)));
    assert_eq!(duration("20μs"), Ok(Duration::from_micros(20)));
}

#[test]
fn messages_show_how_to_write_it() {
    let message = |read: Read, text: &str| read(text).unwrap_err().to_string();
    let cases = [
        (
            message(bits_per_second, "10parsecs"),
            r#""10parsecs" is no bit rate: write it like 10gbit, 100mbit, 1g"#,
        ),
        (message(bits_per_second, "10"), r#""10" is no bit rate: write it like 10gbit, 100mbit, 1g"#),
        (message(size_bytes, ""), r#""" is no size: write it like 64k, 1m, 4GiB, 1500"#),
        (
            message(size_bytes, "-64k"),
            r#""-64k" is no size: it cannot be negative; write it like 64k, 1m, 4GiB, 1500"#,
        ),
        (message(size_bytes, "1.5"), r#""1.5" is no size: it is no whole number of bytes"#),
        (
            message(packets_per_second, "1.0001kpps"),
            r#""1.0001kpps" is no packet rate: it is no whole number of packets/s"#,
        ),
        (message(duration_ns, "5"), r#""5" is no time: write it like 1ms, 20us, 1.5s"#),
        (
            message(duration_ns, "6000000h"),
            r#""6000000h" is no time: it is beyond 18446744073709551615 nanoseconds"#,
        ),
        (message(duration_ns, "1\nms\u{7}"), r#""1\nms\u{7}" is no time: write it like 1ms, 20us, 1.5s"#),
    ];
    for (message, expected) in cases {
        assert_eq!(message, expected);
    }
}

#[test]
fn text_without_number_is_rejected_by_all() {
    let texts = [
        "", " ", "-", "-1", "+1k", ".", "..", "1..5k", "1.5.k", ".k", "k", "gbit", "1,5k", "1_000", "1e6",
        "0x10", "١k", "1kk", "1k k", "∞", "NaN", "inf", "1/2s", "k1", "1 2", "½s",
    ];
    for read in ALL {
        for text in texts {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}

#[test]
fn too_large_or_too_fine_number_is_rejected_by_all() {
    let nines = "9".repeat(60);
    for (read, unit) in ALL.into_iter().zip(["t", "tbit", "gpps", "h", "%"]) {
        for number in ["18446744073709551616", &nines, &format!("{nines}.5")] {
            let error = read(&format!("{number}{unit}")).unwrap_err().to_string();
            assert!(error.contains("it is beyond 18446744073709551615"), "{error}");
        }
        for number in ["0.00000000000001", "1.123456789012345", &format!("0.{nines}")] {
            let error = read(&format!("{number}{unit}")).unwrap_err().to_string();
            assert!(error.contains("it is no whole number of"), "{error}");
        }
    }
}

proptest! {
    /// All texts of a value are read as that value.
    #[test]
    fn every_value_is_read_back(value in any::<u64>()) {
        prop_assert_eq!(size_bytes(&value.to_string()), Ok(value));
        prop_assert_eq!(packets_per_second(&format!("{value}pps")), Ok(value));
        let (whole, parts) = (value / G, value % G);
        prop_assert_eq!(bits_per_second(&format!("{whole}.{parts:09}gbit")), Ok(value));
        prop_assert_eq!(duration_ns(&format!("{whole}.{parts:09}s")), Ok(value));
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,20}|[0-9.]{0,40}[a-z/]{0,5}") {
        for read in ALL {
            if let Err(error) = read(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
