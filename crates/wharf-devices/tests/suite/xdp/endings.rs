//! Interfaces that are not there, or go away, and queues that are free again.

use crate::net::{frame, ip, send_raw, wait_until, with_pair};
use std::time::{Duration, Instant};
use wharf_devices::open::{Direction, open};
use wharf_testkit::end::End;

fn fault(spec: &str) -> String {
    let message = open(spec, Direction::Send).map(|opened| opened.device.name()).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

fn attach_fault(spec: &str) -> String {
    let mut device = open(spec, Direction::Send).unwrap().device;
    let pool = wharf_testkit::pool(64);
    let message = device.attach(pool.region().clone()).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

#[test]
#[ignore = "wants root"]
fn unusable_interface_fails_to_open() {
    with_pair(|| {
        assert!(fault("xdp:nowhere").starts_with("xdp:nowhere: no such interface"));
        let message = attach_fault("xdp:va,queue=7");
        assert!(message.starts_with("xdp:va#7: ") && message.contains("no queue 7"), "{message}");
        let message = attach_fault("xdp:va,mode=zerocopy");
        assert!(message.contains("mode=auto"), "{message}");
        ip("link set va down");
        assert!(fault("xdp:va").contains("is down: `ip link set va up`"));
        // The kernel tells the other end of it some time later.
        let until = Instant::now() + Duration::from_secs(5);
        while open("xdp:vb", Direction::Send).is_ok() && Instant::now() < until {}
        assert!(fault("xdp:vb").contains("vb has no carrier"));
    });
}

#[test]
#[ignore = "wants root"]
fn a_queue_has_one_socket_and_is_free_when_that_is_closed() {
    with_pair(|| {
        for round in 0..20 {
            let mut end = End::sender("xdp:va");
            (0..round).for_each(|number| end.offer(&frame(number, 100)));
            end.device.tx_mut().unwrap().transmit(&mut end.batch, false);
            if round == 3 {
                let message = attach_fault("xdp:va");
                assert!(message.contains("queue 0 is in use by another AF_XDP socket"), "{message}");
            }
            // Closed with frames inside, or dropped without a word after all are back.
            if round % 2 == 0 {
                end.device.close().unwrap();
            }
            end.send_all();
            end.assert_all_home();
        }
    });
}

#[test]
#[ignore = "wants root"]
fn removed_under_traffic() {
    with_pair(|| {
        let mut from = End::sender("xdp:va");
        (0..40).for_each(|number| from.offer(&frame(number, 100)));
        assert_eq!(from.send_all(), (40, vec![]));
        ip("link del va");
        (0..40).for_each(|number| from.offer(&frame(number, 100)));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).unwrap_err().to_string();
        assert!(error.starts_with("xdp:va: the interface is gone"), "{error}");
        assert_eq!(from.reap(), (0, vec!["gone"; 40]));
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (0, vec!["gone"]), "for good, and told once");
        assert!(from.device.tx_mut().unwrap().reap(256, false, &mut from.done).is_ok());
        from.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn switched_off_and_on_again() {
    with_pair(|| {
        let mut from = End::sender("xdp:va");
        ip("link set va down");
        (0..5).for_each(|number| from.offer(&frame(number, 100)));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(256, false, &mut from.done).unwrap_err().to_string();
        assert!(error.starts_with("xdp:va: the interface is down"), "{error}");
        assert_eq!(from.device.tx_mut().unwrap().outstanding(), 5, "frames in the kernel wait");
        from.offer(&frame(9, 100));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        assert_eq!(from.reap(), (0, vec!["link-down"]), "frames not in the kernel yet fail");
        ip("link set va up");
        assert_eq!(from.send_all(), (5, vec![]));
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (1, vec![]));
        from.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn without_a_carrier_frames_fail_until_it_is_back() {
    with_pair(|| {
        let mut from = End::sender("xdp:va");
        ip("link set vb down");
        wait_until("va", false);
        (0..5).for_each(|number| from.offer(&frame(number, 100)));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).unwrap_err().to_string();
        assert!(error.starts_with("xdp:va: va has no carrier"), "{error}");
        assert_eq!(from.send_all(), (0, vec!["link-down"; 5]));
        ip("link set vb up");
        wait_until("va", true);
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (1, vec![]));
        from.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn a_receiver_gives_its_queue_and_program_back() {
    with_pair(|| {
        for round in 0..10 {
            let mut end = End::receiver("xdp:vb");
            assert!(end.receive_within(1, Duration::from_millis(1)).is_empty());
            if round == 2 {
                let mut device = open("xdp:vb", Direction::Receive).unwrap().device;
                let message = device.attach(end.pool.region().clone()).unwrap_err().to_string();
                assert!(message.contains("queue 0 is in use by another AF_XDP socket"), "{message}");
            }
            // Closed, or dropped with frames inside: then only the pool is poorer.
            if round % 2 == 0 {
                super::receiving::finish(end);
            }
        }
    });
}

/// A process was told to end, and the next one starts at once. It waits for the native hook: the generic one, to which it could fall
/// back, is slower. Five times, since the first may be held up for longer than the second waits.
#[test]
#[ignore = "wants root"]
fn a_program_that_is_about_to_go_is_waited_for() {
    with_pair(|| {
        let taken_over = || {
            let goes = End::receiver("xdp:vb");
            let mut comes = open("xdp:vb", Direction::Receive).unwrap().device;
            let pool = wharf_testkit::pool(64);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(1200));
                    drop(goes);
                });
                comes.attach(pool.region().clone()).is_ok() && comes.mode() == Some("native, copy")
            })
        };
        assert!((0..5).any(|_| taken_over()));
    });
}

#[test]
#[ignore = "wants root"]
fn a_receivers_interface_goes_down_and_up_and_away() {
    with_pair(|| {
        let mut to = End::receiver("xdp:vb");
        let frames: Vec<Vec<u8>> = (0..40).map(|number| frame(number, 100)).collect();
        assert!(to.receive_within(1, Duration::from_millis(1)).is_empty());
        let error = |to: &mut End| loop {
            match to.device.rx_mut().unwrap().receive(&mut to.cache, &mut to.batch, 64) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => break error.to_string(),
            }
        };
        for _ in 0..2 {
            send_raw("va", &frames);
            assert!(to.receive(40) == frames);
            ip("link set vb down");
            let message = error(&mut to);
            assert!(message.starts_with("xdp:vb: the interface is down: `ip link set vb up`"), "{message}");
            assert!(to.receive_within(1, Duration::from_millis(1)).is_empty(), "told once");
            assert!(!to.device.rx_mut().unwrap().ended());
            ip("link set vb up");
            wait_until("va", true);
        }
        send_raw("va", &frames);
        assert!(to.receive(40) == frames, "it goes on");
        ip("link del va");
        let message = error(&mut to);
        assert!(message.starts_with("xdp:vb: the interface is gone"), "{message}");
        assert!(to.device.rx_mut().unwrap().ended());
        super::receiving::finish(to);
    });
}

#[test]
#[ignore = "wants root"]
fn too_long_and_too_short_frames_are_counted_and_others_go_on() {
    with_pair(|| {
        let mut from = End::new("xdp:va", Direction::Send, 4096 - 64);
        for len in [1514, 1515, 14, 15, 3000, 60] {
            from.offer(&vec![2; len]);
        }
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).unwrap_err().to_string();
        assert!(error.contains("a frame of 1515 bytes is too long: va's MTU of 1500"), "{error}");
        let (sent, mut failed) = from.send_all();
        failed.sort_unstable();
        assert_eq!((sent, failed), (3, vec!["too-long", "too-long", "too-short"]));
        from.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn frames_too_long_for_the_other_end_fail_with_an_error() {
    with_pair(|| {
        ip("link set va mtu 3000");
        let mut from = End::new("xdp:va", Direction::Send, 4096 - 64);
        for len in [60, 2000, 1514, 2000] {
            from.offer(&frame(1, len));
        }
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).unwrap_err().to_string();
        assert!(error.contains("drops frames: the MTU of its other end"), "{error}");
        assert_eq!(from.send_all(), (2, vec!["refused"; 2]));
        from.assert_all_home();
    });
}
