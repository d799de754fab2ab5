//! Steps of an owner, without a queue.

use wharf_core::engine::Pause;
use wharf_core::owner::{Action, Event, JIFFY_NS, Owner, Policy};

const POLICY: Policy = Policy { quota_packets: 64, time_ns: None };

fn sent(packets: u32, pause: Pause) -> Event {
    Event::Transmitted { packets, pause }
}

#[test]
fn empty_queue_is_released_after_one_transmit_and_one_reap() {
    let mut owner = Owner::new(POLICY, true, 0);
    assert_eq!(owner.step(0, Event::Claimed), Action::Transmit);
    assert_eq!(owner.step(0, sent(32, Pause::Empty)), Action::Reap);
    assert_eq!(owner.step(0, Event::Reaped { packets: 32, open: true }), Action::Leave);
}

#[test]
fn spent_quota_hands_over_or_restarts_without_successor() {
    for (successor, next, quota) in [(true, Action::HandOver, 0), (false, Action::Transmit, 64)] {
        let mut owner = Owner::new(POLICY, successor, 0);
        owner.step(0, Event::Claimed);
        owner.step(0, sent(64, Pause::Quota));
        assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), next);
        assert_eq!(owner.quota_left(), quota);
    }
}

#[test]
fn stop_ends_the_run_unless_reaping_opened_the_limit() {
    let mut owner = Owner::new(POLICY, true, 0);
    owner.step(0, Event::Claimed);
    owner.step(0, sent(1, Pause::Stopped));
    assert_eq!(owner.step(0, Event::Reaped { packets: 1, open: true }), Action::Transmit);
    owner.step(0, sent(3, Pause::Stopped));
    assert_eq!(owner.step(0, Event::Reaped { packets: 0, open: false }), Action::Leave);
    assert_eq!(owner.step(0, Event::Refused), Action::HandlePending);
    assert_eq!(owner.step(0, Event::PendingHandled), Action::Transmit);
    assert_eq!((owner.packets(), owner.quota_left()), (4, 60));
}

#[test]
fn time_limit_hands_over() {
    let policy = Policy { quota_packets: 64, time_ns: Some(1000) };
    let mut owner = Owner::new(policy, true, 500);
    owner.step(500, Event::Claimed);
    owner.step(600, sent(1, Pause::Quota));
    assert_eq!(owner.step(1400, Event::Reaped { packets: 1, open: true }), Action::Transmit);
    owner.step(1450, sent(1, Pause::Quota));
    assert_eq!(owner.step(1500, Event::Reaped { packets: 1, open: true }), Action::HandOver);
}

#[test]
fn clock_is_read_only_if_the_run_goes_on_and_time_is_bounded() {
    let unread = || -> u64 { unreachable!("nothing depends on the time here") };
    let mut owner = Owner::unclocked(Policy::QUOTA_AND_TIME, true);
    assert_eq!(owner.step_by(unread, Event::Claimed), Action::Transmit);
    assert_eq!(owner.step_by(unread, sent(32, Pause::Empty)), Action::Reap);
    assert_eq!(owner.step_by(unread, Event::Reaped { packets: 32, open: true }), Action::Leave);
    let more = Event::Reaped { packets: 1, open: true };
    for (policy, last_ns, wanted) in [
        (Policy::JIFFY, JIFFY_NS + 6, Action::Transmit),
        (Policy::JIFFY, JIFFY_NS + 7, Action::HandOver),
        (Policy::UNBOUNDED, u64::MAX, Action::Transmit),
        (Policy::quota(65), u64::MAX, Action::Transmit),
    ] {
        let mut owner = Owner::unclocked(policy, true);
        owner.step_by(unread, Event::Claimed);
        owner.step_by(unread, sent(64, Pause::Quota));
        assert_eq!(owner.step(7, more), Action::Transmit, "the time runs from here");
        owner.step_by(unread, sent(0, Pause::Quota));
        assert_eq!(owner.step(last_ns, more), wanted, "{policy:?}");
    }
}

#[test]
fn step_ends_at_a_bulk_and_run_at_its_quota() {
    let mut owner = Owner::unclocked(Policy::quota(100), true);
    owner.step(0, Event::Claimed);
    assert_eq!(owner.quota_left(), 64);
    owner.step(0, sent(64, Pause::Quota));
    assert_eq!(owner.step(0, Event::Reaped { packets: 64, open: true }), Action::Transmit);
    assert_eq!(owner.quota_left(), 36);
    owner.step(0, sent(36, Pause::Quota));
    assert_eq!(owner.step(0, Event::Reaped { packets: 36, open: true }), Action::HandOver);
    owner.restart();
    owner.sent_some(10);
    assert_eq!((owner.longest_packets(), owner.quota_left(), owner.packets()), (100, 64, 110));
}
