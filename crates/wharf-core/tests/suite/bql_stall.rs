//! Stall detection: which silences of a device count.

use std::time::Duration;

use proptest::prelude::*;
use wharf_core::bql::StallDetector;

const THRESHOLD_MS: u64 = 100;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn detector() -> StallDetector {
    StallDetector::new(ms(THRESHOLD_MS))
}

fn found(stall: &StallDetector) -> (u64, Duration) {
    (stall.count(), stall.max())
}

#[test]
fn a_silence_of_the_threshold_counts() {
    let mut stall = detector();
    stall.queued(ms(5000));
    stall.completed(ms(5099));
    assert_eq!(found(&stall), (0, ms(0)));
    stall.queued(ms(5099));
    stall.completed(ms(5199));
    assert_eq!(found(&stall), (1, ms(100)));
}

#[test]
fn an_idle_queue_does_not_stall() {
    let mut stall = detector();
    stall.queued(ms(0));
    stall.completed(ms(1));
    stall.queued(ms(9_000));
    stall.completed(ms(9_049));
    assert_eq!(found(&stall), (0, ms(0)));
}

#[test]
fn after_idleness_half_the_threshold_counts() {
    let mut stall = detector();
    stall.queued(ms(0));
    stall.completed(ms(1));
    stall.queued(ms(9_000));
    stall.completed(ms(9_050));
    assert_eq!(found(&stall), (1, ms(50)));
}

#[test]
fn later_packets_do_not_hide_the_first() {
    let mut stall = detector();
    stall.queued(ms(0));
    for time in [60, 99, 5000, 99_999] {
        stall.queued(ms(time));
    }
    stall.completed(ms(100_000));
    assert_eq!(found(&stall), (1, ms(100_000)));
}

#[test]
fn packets_before_the_last_completion_do_not_count() {
    let mut stall = detector();
    stall.queued(ms(0));
    stall.queued(ms(10));
    stall.completed(ms(10));
    stall.completed(ms(500));
    assert_eq!(found(&stall), (0, ms(0)));
}

#[test]
fn packets_left_at_a_completion_count_if_told() {
    let mut stall = detector();
    stall.queued(ms(0));
    stall.completed(ms(10));
    stall.queued(ms(10));
    stall.completed(ms(500));
    assert_eq!(found(&stall), (1, ms(490)));
}

#[test]
fn the_longest_is_kept_until_cleared() {
    let mut stall = detector();
    for (from, to) in [(0, 200), (200, 600), (600, 750)] {
        stall.queued(ms(from));
        stall.completed(ms(to));
    }
    assert_eq!(found(&stall), (3, ms(400)));
    stall.clear_max();
    assert_eq!(found(&stall), (3, ms(0)));
}

#[test]
fn reset_ends_the_wait() {
    let mut stall = detector();
    stall.queued(ms(0));
    stall.reset(ms(500));
    stall.completed(ms(900));
    assert_eq!(found(&stall), (0, ms(0)));
}

#[test]
fn zero_is_off_and_extremes_do_not_panic() {
    let mut off = StallDetector::new(Duration::ZERO);
    off.queued(ms(0));
    off.completed(Duration::MAX);
    assert_eq!(found(&off), (0, ms(0)));
    let mut stall = detector();
    stall.completed(Duration::MAX);
    stall.queued(Duration::MAX);
    stall.completed(ms(0));
    stall.queued(ms(0));
    stall.completed(Duration::MAX);
    assert_eq!(stall.count(), 1);
}

/// The definition, spelled out over the whole history. The first entry is the first queueing.
fn stalls_by_definition(events: &[(u64, bool)]) -> (u64, u64) {
    let (mut count, mut max_ms) = (0, 0);
    let mut queued_ms: Vec<u64> = Vec::new();
    let mut last_reap_ms = events.first().map_or(0, |event| event.0);
    for &(now_ms, is_completion) in events {
        if !is_completion {
            queued_ms.push(now_ms);
            continue;
        }
        let early = queued_ms.iter().find(|&&time| time + THRESHOLD_MS / 2 <= now_ms);
        if let Some(time) = early.filter(|_| last_reap_ms + THRESHOLD_MS <= now_ms) {
            count += 1;
            max_ms = max_ms.max(now_ms - time);
        }
        queued_ms.clear();
        last_reap_ms = now_ms;
    }
    (count, max_ms)
}

proptest! {
    #[test]
    fn agrees_with_the_definition(
        steps in prop::collection::vec((prop_oneof![0..20u64, 0..150u64], any::<bool>()), 1..200),
    ) {
        let mut now_ms = 0;
        let mut events: Vec<(u64, bool)> = vec![(0, false)];
        for (step_ms, is_completion) in steps {
            now_ms += step_ms;
            events.push((now_ms, is_completion));
        }
        let mut stall = detector();
        for &(time_ms, is_completion) in &events {
            if is_completion { stall.completed(ms(time_ms)) } else { stall.queued(ms(time_ms)) }
        }
        let (count, max_ms) = stalls_by_definition(&events);
        prop_assert_eq!(found(&stall), (count, ms(max_ms)));
    }
}
