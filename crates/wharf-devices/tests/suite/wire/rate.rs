//! Transmission times on a line of any rate.

use wharf_devices::wire::rate::{Line, OVERHEAD_BYTES_MAX, RATE_MAX};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Returns the exact time of `bits` on a line, rounded up.
fn exact_ns(bits: u128, bits_per_second: u64) -> u64 {
    (bits * u128::from(NS_PER_SECOND)).div_ceil(bits_per_second.into()) as u64
}

#[test]
fn a_million_frames_take_as_long_as_their_bytes() {
    for bits_per_second in [10_000_000_000, 100_000_000_000, 1_000_000_007, 3, RATE_MAX] {
        let mut line = Line::new(bits_per_second, 24);
        let (start_ns, mut bits) = (12_345, 0);
        for n in 0..1_000_000u32 {
            let len_bytes = 60 + n % 1455;
            bits += u128::from(8 * (len_bytes + 24));
            let leave_ns = line.send(len_bytes, start_ns);
            let expected_ns = start_ns.saturating_add(exact_ns(bits, bits_per_second));
            assert_eq!(leave_ns, expected_ns, "frame {n} at {bits_per_second} bit/s");
        }
    }
}

#[test]
fn ten_gigabit_carry_ethernets_line_rate() {
    let mut line = Line::new(10_000_000_000, 24);
    let last_ns = (0..1_488_095).map(|_| line.send(60, 0)).last().unwrap();
    // 14.88 Mpps of the smallest frames: a tenth of a second for a tenth of them.
    assert_eq!(last_ns, 99_999_984);
}

#[test]
fn a_line_that_was_idle_starts_at_once_and_keeps_no_rest() {
    let mut line = Line::new(3_000_000_000, 0);
    assert_eq!(line.send(1, 0), 3, "8 bits in 2.67 ns");
    assert_eq!(line.send(1, 2), 6, "the line was busy until 2.67 ns: 5.33 ns");
    assert_eq!(line.send(1, 100), 103, "idle");
    assert_eq!(line.send(1, 102), 106, "the line is busy until 102.67 ns");
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let mut line = Line::new(1, OVERHEAD_BYTES_MAX);
    for _ in 0..20_000 {
        line.send(wharf_mem::frame::LENGTH_BYTES_MAX, 0);
    }
    assert_eq!(line.send(1, u64::MAX), u64::MAX);
    let mut fast = Line::new(RATE_MAX, OVERHEAD_BYTES_MAX);
    (0..100).for_each(|_| assert!(fast.send(wharf_mem::frame::LENGTH_BYTES_MAX, 0) < 1000));
}
