//! Every answer that the kernel has.

use super::Bench;
use super::kernel::{Event, Random};
use wharf_core::device::DeviceError;
use wharf_devices::iface::State;
use wharf_sys::errno::{EAGAIN, EBUSY, EINTR, ENOBUFS, ENOMEM};

const STARTS: [u32; 3] = [0, u32::MAX - 20, u32::MAX];

#[test]
fn a_batch_is_one_kick_and_every_frame_comes_back_once_over_the_end_of_the_indices() {
    for start in STARTS {
        let mut bench = Bench::new(64, 64, start);
        bench.mock.with(|kernel| kernel.budget = 64);
        for _ in 0..20 {
            bench.offer(40);
            assert!(!bench.transmit());
            bench.mock.with(|kernel| kernel.complete_all());
            bench.reap().unwrap();
        }
        assert_eq!(bench.mock.with(|kernel| kernel.kicks), 20);
        assert_eq!((bench.sent.len(), bench.failed.len()), (800, 0));
        bench.assert_conserved();
    }
}

#[test]
fn a_kernel_that_takes_only_32_is_rung_again() {
    let mut bench = Bench::new(64, 64, u32::MAX - 10);
    bench.offer(64);
    assert!(bench.transmit(), "the ring is full");
    assert_eq!(bench.mock.with(|kernel| (kernel.kicks, kernel.taken.len())), (2, 64));
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    bench.assert_conserved();
}

#[test]
fn rejected_frames_stay_and_are_submitted_again() {
    for error in [EAGAIN, ENOBUFS, ENOMEM, 999] {
        let mut bench = Bench::new(16, 16, u32::MAX - 1);
        let refuse = Event::Refuse(error);
        bench.mock.with(|kernel| kernel.events.extend([Event::Send, refuse, refuse, refuse, refuse]));
        bench.offer(3);
        let mut rounds = 0;
        assert!(bench.transmit());
        while bench.sent.len() < 3 {
            bench.mock.with(|kernel| kernel.complete_all());
            // An unexpected error is reported.
            assert_eq!(bench.reap().is_err(), error == 999 && !bench.mock.with(|k| k.taken.len() == 3));
            rounds += 1;
            assert!(rounds < 9, "{error}: wedged");
        }
        bench.assert_conserved();
    }
    let mut bench = Bench::new(16, 16, 0);
    bench.mock.with(|kernel| kernel.events.push_back(Event::Refuse(EINTR)));
    bench.offer(1);
    assert!(!bench.transmit(), "a signal is no refusal");
    assert_eq!(bench.mock.with(|kernel| kernel.kicks), 2);
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    bench.assert_conserved();
}

#[test]
fn a_completion_ring_that_is_full_stops_and_goes_on() {
    // Half as many completions as descriptors: the smaller of both bounds what is out.
    let mut bench = Bench::new(16, 8, u32::MAX - 3);
    bench.offer(20);
    assert!(bench.transmit());
    assert_eq!((bench.sending.held(), bench.batch.len()), (8, 12));
    for _ in 0..9 {
        assert!(bench.transmit() || bench.batch.is_empty());
        bench.mock.with(|kernel| kernel.complete_all());
        bench.reap().unwrap();
    }
    assert_eq!(bench.sent.len(), 20);
    bench.assert_conserved();
}

#[test]
fn a_frame_that_the_interface_dropped_is_known_by_name() {
    let events: [(&[Event], &[u32]); 6] = [
        (&[Event::Drop], &[0]),
        (&[Event::Send, Event::Drop], &[1]),
        (&[Event::Drop, Event::Drop, Event::Send, Event::Drop], &[0, 1, 3]),
        (&[Event::Send, Event::Send, Event::Send, Event::Send, Event::Drop], &[4]),
        (&[Event::Drop, Event::Refuse(EAGAIN), Event::Drop], &[0, 1]),
        (&[Event::Drop; 5], &[0, 1, 2, 3, 4]),
    ];
    for start in STARTS {
        for (events, dropped) in events {
            let mut bench = Bench::new(8, 8, start);
            bench.mock.with(|kernel| kernel.events.extend(events));
            bench.offer(5);
            bench.transmit();
            for _ in 0..3 {
                bench.mock.with(|kernel| kernel.complete_all());
                if let Err(error) = bench.reap() {
                    assert!(error.to_string().contains("drops frames"), "told once: {error}");
                }
            }
            let names: Vec<u32> = bench.failed.iter().map(|one| one.0).collect();
            assert_eq!(names, dropped, "{events:?} from {start}");
            assert!(bench.failed.iter().all(|one| one.1 == "refused"));
            bench.assert_conserved();
        }
    }
}

/// Drops while the kernel still has an older look at the ring, and frames follow one by one.
#[test]
fn and_so_it_is_in_any_mixture() {
    for seed in 0..60 {
        let random = Random::new(seed * 7919 + 3);
        let mut bench = Bench::new(16, 16, u32::MAX - 40);
        let (mut rounds, mut dropped) = (0, Vec::new());
        while bench.sent.len() + bench.failed.len() < 400 {
            let room = 400 - bench.given as usize;
            bench.offer(random.below(9).min(room) as u32);
            bench.mock.with(|kernel| {
                for _ in 0..random.below(12) {
                    let event = match random.below(6) {
                        0 => Event::Refuse([EAGAIN, ENOBUFS, ENOMEM, EINTR][random.below(4)]),
                        1 | 2 => Event::Drop,
                        _ => Event::Send,
                    };
                    kernel.events.push_back(event);
                }
                kernel.budget = 1 + random.below(8) as u32;
            });
            bench.transmit();
            let region = bench.pool.region().clone();
            let mut addresses = Vec::new();
            bench.sending.visit(&mut |frame| {
                let number = super::number_of(&region, frame);
                addresses.push((region.offset_bytes(frame).unwrap() as u64, number));
            });
            bench.mock.with(|kernel| {
                let name = |at: &u64| addresses.iter().find(|one| one.0 == *at).unwrap().1;
                dropped.extend(kernel.dropped.drain(..).map(|at| name(&at)));
                for _ in 0..random.below(kernel.under_way.len() + 1) {
                    kernel.complete_one(random.below(kernel.under_way.len()));
                }
                kernel.events.clear();
            });
            let _ = bench.reap();
            rounds += 1;
            assert!(rounds < 4000, "seed {seed}: wedged");
        }
        let mut failed: Vec<u32> = bench.failed.iter().map(|one| one.0).collect();
        failed.sort_unstable();
        dropped.sort_unstable();
        assert_eq!(failed, dropped, "seed {seed}");
        bench.assert_conserved();
    }
}

#[test]
fn completion_of_an_address_not_held_is_an_error_and_changes_nothing_else() {
    let mut bench = Bench::new(16, 16, u32::MAX);
    bench.offer(2);
    bench.transmit();
    let first = bench.mock.with(|kernel| kernel.taken[0].addr);
    let foreign = [first + 8192 * 9, first + 1, 0, u64::MAX, 8192 * 256];
    for address in foreign {
        bench.mock.with(|kernel| kernel.lie(address));
        assert!(matches!(bench.reap(), Err(DeviceError::NotHeld { .. })), "{address}");
    }
    bench.mock.with(|kernel| {
        kernel.complete_one(0);
        kernel.lie(first);
    });
    assert!(matches!(bench.reap(), Err(DeviceError::NotHeld { .. })), "twice");
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    assert_eq!(bench.sent.len(), 2);
    bench.assert_conserved();
}

#[test]
fn switched_off_it_waits_and_then_goes_on() {
    let mut bench = Bench::new(16, 16, 7);
    bench.mock.with(|kernel| kernel.state = State::Down);
    bench.offer(3);
    assert!(bench.transmit());
    assert!(matches!(bench.reap(), Err(DeviceError::Down { .. })));
    assert_eq!((bench.sent.len(), bench.failed.len(), bench.sending.held()), (0, 0, 3));
    bench.offer(1);
    bench.transmit();
    bench.reap().unwrap();
    assert_eq!(bench.failed, [(3, "link-down")], "known by now, and told once");
    bench.mock.with(|kernel| kernel.state = State::Up);
    bench.reap().unwrap();
    bench.mock.with(|kernel| kernel.complete_all());
    bench.reap().unwrap();
    assert_eq!(bench.sent, [0, 2, 1]);
    bench.assert_conserved();
}

#[test]
fn a_link_without_carrier_drops_and_says_so() {
    let mut bench = Bench::new(16, 16, 7);
    bench.mock.with(|kernel| {
        kernel.state = State::Down;
        kernel.events.extend([Event::Drop; 3]);
    });
    bench.offer(3);
    bench.transmit();
    assert!(matches!(bench.reap(), Err(DeviceError::Down { .. })));
    assert_eq!(bench.failed, [(0, "link-down"), (1, "link-down"), (2, "link-down")]);
    bench.assert_conserved();
}

#[test]
fn gone_and_closed() {
    for goes in [true, false] {
        let mut bench = Bench::new(16, 16, u32::MAX);
        bench.offer(6);
        bench.transmit();
        bench.mock.with(|kernel| {
            kernel.complete_one(0);
            kernel.state = if goes { State::Gone } else { State::Up };
        });
        if goes {
            bench.offer(2);
            bench.transmit();
            assert!(matches!(bench.reap(), Err(DeviceError::Gone { .. })));
        } else {
            bench.sending.close();
            bench.reap().unwrap();
        }
        let reason = if goes { "gone" } else { "lost" };
        assert_eq!(bench.sent, [0]);
        assert_eq!(bench.failed.len(), if goes { 7 } else { 5 });
        assert!(bench.failed.iter().all(|one| one.1 == reason), "{:?}", bench.failed);
        bench.offer(1);
        bench.transmit();
        bench.reap().unwrap();
        let reason = if goes { "gone" } else { "closed" };
        assert_eq!(bench.failed.last(), Some(&(bench.given - 1, reason)), "for good");
        bench.assert_conserved();
    }
    assert_eq!(EBUSY, 16);
}
