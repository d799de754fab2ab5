//! Properties of byte queue limits on any sequence of calls.

use std::time::Duration;

use proptest::prelude::*;
use wharf_core::bql::{Bounds, Bql, BqlError, MAX_LIMIT_BYTES, MAX_OBJECT_BYTES};

const HOLD: Duration = Duration::from_millis(100);

/// One call. Completions are a share of what is in flight, so that they never exceed it.
#[derive(Clone, Debug)]
enum Call {
    Queue(u32),
    CompletePermille(u32),
    AdvanceMs(u64),
    SetMin(u32),
    SetMax(u32),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => prop_oneof![Just(60u32), Just(1514), 1..9015u32, 1..65_536u32].prop_map(Call::Queue),
        6 => prop_oneof![Just(1000u32), 0..=1000u32].prop_map(Call::CompletePermille),
        3 => prop_oneof![0..5u64, 0..250u64].prop_map(Call::AdvanceMs),
        1 => (0..50_000u32).prop_map(Call::SetMin),
        1 => prop_oneof![0..200_000u32, any::<u32>()].prop_map(Call::SetMax),
    ]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec(call(), 1..300)
}

/// A queue with its clock, its bounds, and its own account of what is in flight.
struct Driven {
    bql: Bql,
    now: Duration,
    in_flight_bytes: u32,
    min_bytes: u32,
    max_bytes: u32,
}

impl Driven {
    fn new(bql: Bql) -> Self {
        let (now, in_flight_bytes, min_bytes) = (Duration::ZERO, 0, 0);
        Self { bql, now, in_flight_bytes, min_bytes, max_bytes: MAX_LIMIT_BYTES }
    }

    /// Makes one call; true if it completed bytes.
    fn make(&mut self, call: &Call) -> bool {
        match *call {
            // A sender queues one more packet unless the queue is stopped.
            Call::Queue(bytes) if self.bql.available() >= 0 => {
                self.bql.queued(bytes);
                self.in_flight_bytes += bytes;
            }
            Call::Queue(_) => {}
            Call::CompletePermille(share) => return self.complete(share),
            Call::AdvanceMs(ms) => self.now += Duration::from_millis(ms),
            Call::SetMin(bytes) => {
                self.bql.set_min(bytes);
                self.min_bytes = bytes;
            }
            Call::SetMax(bytes) => {
                self.bql.set_max(bytes);
                self.max_bytes = bytes.min(MAX_LIMIT_BYTES);
            }
        }
        false
    }

    fn complete(&mut self, permille: u32) -> bool {
        let bytes = u64::from(self.in_flight_bytes) * u64::from(permille) / 1000;
        let bytes = u32::try_from(bytes).unwrap();
        self.bql.completed(bytes, self.now).unwrap();
        self.in_flight_bytes -= bytes;
        bytes != 0
    }
}

proptest! {
    #[test]
    fn limit_within_bounds_after_each_completion(calls in calls()) {
        let mut driven = Driven::new(Bql::new(HOLD));
        for call in &calls {
            let before_bytes = driven.bql.limit();
            let completed = driven.make(call);
            let limit_bytes = driven.bql.limit();
            if completed {
                prop_assert!(limit_bytes <= driven.max_bytes);
                prop_assert!(limit_bytes >= driven.min_bytes.min(driven.max_bytes));
            } else {
                prop_assert_eq!(limit_bytes, before_bytes);
            }
            prop_assert_eq!(driven.bql.in_flight(), driven.in_flight_bytes);
            let available = i64::from(limit_bytes) - i64::from(driven.in_flight_bytes);
            prop_assert_eq!(i64::from(driven.bql.available()), available);
        }
    }

    #[test]
    fn the_wrap_is_not_seen(calls in calls(), before_wrap in 0..3_000_000u32) {
        let mut low = Driven::new(Bql::new(HOLD));
        let mut high = Driven::new(Bql::start_at(HOLD, 0u32.wrapping_sub(before_wrap)));
        for call in &calls {
            low.make(call);
            high.make(call);
            prop_assert_eq!(low.bql.limit(), high.bql.limit());
            prop_assert_eq!(low.bql.available(), high.bql.available());
        }
    }

    #[test]
    fn over_completion_is_refused_and_changes_nothing(calls in calls(), excess in any::<u32>()) {
        let mut driven = Driven::new(Bql::new(HOLD));
        calls.iter().for_each(|call| { driven.make(call); });
        let in_flight_bytes = driven.in_flight_bytes;
        let completed_bytes = in_flight_bytes.saturating_add(excess.max(1));
        let before = driven.bql.clone();
        let error = driven.bql.completed(completed_bytes, driven.now).unwrap_err();
        prop_assert_eq!(error, BqlError::OverCompletion { completed_bytes, in_flight_bytes });
        prop_assert_eq!(&driven.bql, &before);
        driven.bql.completed(0, driven.now + HOLD * 3).unwrap();
        prop_assert_eq!(&driven.bql, &before);
    }

    #[test]
    fn a_batch_is_its_packets(
        calls in calls(),
        packets in prop::collection::vec(1..65_536u32, 1..64),
    ) {
        let mut driven = Driven::new(Bql::start_at(HOLD, u32::MAX - 100_000));
        calls.iter().for_each(|call| { driven.make(call); });
        let mut batched = driven.bql.clone();
        batched.queued_batch(packets.iter().sum(), packets[packets.len() - 1]);
        packets.iter().for_each(|&bytes| driven.bql.queued(bytes));
        prop_assert_eq!(batched, driven.bql);
    }

    #[test]
    fn starvation_raises_the_limit(calls in calls(), bytes in 1..65_536u32) {
        let mut driven = Driven::new(Bql::new(HOLD));
        calls.iter().for_each(|call| { driven.make(call); });
        driven.bql.set_min(0);
        driven.bql.set_max(MAX_LIMIT_BYTES);
        driven.complete(1000);
        // Over the limit, and all of it done: by at least what was needed beyond it.
        let before_bytes = driven.bql.limit();
        driven.bql.queued_batch(before_bytes + bytes, bytes);
        driven.bql.completed(before_bytes + bytes, driven.now).unwrap();
        prop_assert!(driven.bql.limit() >= before_bytes + bytes);
    }

    #[test]
    fn slack_lowers_the_limit_only_after_the_hold_time(busy_rounds in 3..40u64) {
        let mut driven = Driven::new(Bql::new(HOLD));
        driven.bql.queued(100_000);
        driven.bql.completed(100_000, driven.now).unwrap();
        prop_assert_eq!(driven.bql.limit(), 100_000);
        // Always busy, never near the limit.
        driven.bql.queued(3000);
        for round in 0..busy_rounds {
            driven.bql.completed(1000, HOLD * u32::try_from(round).unwrap() / 20).unwrap();
            driven.bql.queued(1000);
        }
        let held = busy_rounds - 1 <= 20;
        prop_assert_eq!(driven.bql.limit(), if held { 100_000 } else { 2000 });
    }

    #[test]
    fn no_call_sequence_panics(
        calls in prop::collection::vec((0..6u8, any::<u32>()), 0..200),
        start in any::<u32>(),
    ) {
        let mut bql = Bql::start_at(HOLD, start);
        for (kind, value) in calls {
            let now = Duration::from_nanos(u64::from(value) << 32);
            match kind {
                0 => bql.queued(value),
                1 => bql.queued_batch(value, value / 2),
                2 => { let _ = bql.completed(value, now); }
                3 => { let _ = bql.completed(bql.in_flight() / 2, now); }
                4 => bql.set_min(value),
                _ => bql.set_max(value),
            }
            prop_assert_eq!(bql.available() < 0, bql.in_flight() > bql.limit());
            prop_assert!(bql.limit() <= MAX_LIMIT_BYTES);
        }
    }
}

#[test]
fn from_reset_to_4500() {
    let mut bql = Bql::new(HOLD);
    bql.queued(1500);
    assert_eq!(bql.available(), -1500);
    bql.completed(1500, Duration::ZERO).unwrap();
    assert_eq!((bql.limit(), bql.available()), (1500, 1500));
    bql.queued(1500);
    assert_eq!(bql.available(), 0, "zero does not stop");
    bql.queued(1500);
    assert_eq!(bql.available(), -1500);
    bql.completed(3000, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 4500);
}

#[test]
fn one_byte_over_the_limit_is_starvation() {
    let mut bql = Bql::start_at(HOLD, u32::MAX);
    bql.queued(1);
    bql.completed(1, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 1);
}

#[test]
fn the_window_ends_strictly_after_the_hold_time() {
    let busy = |end: Duration| {
        let mut bql = Bql::new(HOLD);
        bql.queued(100_000);
        bql.completed(100_000, Duration::ZERO).unwrap();
        bql.queued(3000);
        bql.completed(1000, Duration::ZERO).unwrap();
        bql.completed(1000, end).unwrap();
        bql.limit()
    };
    assert_eq!(busy(HOLD), 100_000);
    assert_eq!(busy(HOLD + Duration::from_nanos(1)), 2000);
}

#[test]
fn a_hold_time_without_end_never_shrinks() {
    let mut bql = Bql::new(Duration::MAX);
    bql.queued(100_000);
    bql.completed(100_000, Duration::ZERO).unwrap();
    bql.queued(3000);
    for years in 0..292 {
        let now = Duration::from_secs(years * 365 * 24 * 3600);
        bql.completed(1000, now).unwrap();
        bql.queued(1000);
    }
    assert_eq!(bql.limit(), 100_000);
}

#[test]
fn bounds_hold_from_the_next_completion() {
    let mut bql = Bql::new(HOLD);
    bql.set_min(3000);
    assert_eq!((bql.limit(), bql.available()), (0, 0));
    bql.queued(100);
    bql.completed(100, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 3000);
    bql.set_max(2000);
    assert_eq!(bql.limit(), 3000);
    bql.queued(100);
    bql.completed(100, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 2000, "where the bounds cross, the upper one holds");
}

#[test]
fn reset_forgets_all_but_the_settings() {
    let mut bql = Bql::start_at(HOLD, u32::MAX - 1000);
    bql.set_min(500);
    bql.queued(5000);
    bql.completed(1000, Duration::ZERO).unwrap();
    bql.reset(Duration::ZERO);
    assert_eq!((bql.limit(), bql.available(), bql.in_flight()), (0, 0, 0));
    bql.queued(1);
    bql.completed(1, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 500);
}

#[test]
fn an_oversized_packet_is_counted_in_full() {
    let mut bql = Bql::new(HOLD);
    bql.queued(MAX_OBJECT_BYTES + 5);
    assert_eq!(bql.in_flight(), MAX_OBJECT_BYTES + 5);
    bql.completed(MAX_OBJECT_BYTES + 5, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), MAX_OBJECT_BYTES + 5);
}

#[test]
fn bytes_in_flight_saturate() {
    let mut bql = Bql::start_at(HOLD, 77);
    bql.queued(u32::MAX - 10);
    assert_eq!(bql.available(), i32::MIN, "far over the limit never reads as room");
    bql.queued(1500);
    assert_eq!(bql.in_flight(), u32::MAX);
    assert_eq!(bql.available(), i32::MIN);
    bql.completed(u32::MAX, Duration::ZERO).unwrap();
    assert_eq!(bql.in_flight(), 0);
}

#[test]
fn the_error_names_both_numbers() {
    let mut bql = Bql::new(HOLD);
    bql.queued(60);
    let text = bql.completed(61, Duration::ZERO).unwrap_err().to_string();
    assert_eq!(text, "61 bytes reported complete, but only 60 are in flight");
}

#[test]
fn a_limit_that_was_off_is_learnt_anew() {
    let mut bql = Bql::new(HOLD);
    bql.set_bounds(Bounds::OFF);
    bql.queued(1514);
    bql.completed(1514, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), MAX_LIMIT_BYTES);
    bql.queued(1514);
    bql.set_bounds(Bounds::LEARN);
    assert_eq!((bql.limit(), bql.in_flight()), (0, 1514), "what is in flight still counts");
    bql.completed(1514, Duration::ZERO).unwrap();
    assert_eq!(bql.limit(), 1514);
}

#[test]
fn a_limit_is_off_only_without_an_upper_bound() {
    let capped = Bounds { max_bytes: 4096, ..Bounds::OFF };
    assert!(Bounds::OFF.is_off() && !capped.is_off(), "where the bounds cross, the upper one holds");
    let mut bql = Bql::new(HOLD);
    bql.set_bounds(capped);
    bql.queued(1514);
    bql.completed(1514, Duration::ZERO).unwrap();
    bql.set_bounds(Bounds::LEARN);
    assert_eq!(bql.limit(), 4096, "what was learnt under a bound stays");
}
