//! Interfaces that go down, away, or elsewhere under traffic.

use crate::net::{apart, frame, ip, send_raw, with_net};
use std::sync::mpsc;
use std::time::Duration;
use wharf_core::device::DeviceError;
use wharf_testkit::end::End;
use wharf_testkit::threads::eventually;

#[test]
#[ignore = "wants root"]
fn down_and_up_again_both_ways() {
    with_net(|| {
        let (mut tap, mut to) = (End::sender("tap:t0"), End::receiver("packet:t0"));
        ip("link set t0 down");
        (0..3).for_each(|number| tap.offer(&frame(number, 100)));
        tap.device.tx_mut().unwrap().transmit(&mut tap.batch, false);
        let error = tap.device.tx_mut().unwrap().reap(0, false, &mut tap.done).unwrap_err();
        assert!(matches!(error, DeviceError::Down { .. }), "{error}");
        assert!(
            error.to_string().starts_with("tap:t0: the interface is down: `ip link set t0 up`"),
            "{error}"
        );
        assert_eq!(tap.reap(), (0, vec!["link-down"; 3]));
        assert_eq!(tap.receive_within(1, std::time::Duration::from_millis(5)), [[0u8; 0]; 0]);
        assert!(!tap.device.rx_mut().unwrap().ended(), "it may come back");
        tap.offer(&frame(3, 100));
        assert_eq!(tap.send_all(), (0, vec!["link-down"]));
        ip("link set t0 up");
        to = {
            drop(to);
            End::receiver("packet:t0")
        };
        tap.offer(&frame(4, 100));
        assert_eq!(tap.send_all(), (1, vec![]));
        assert_eq!(to.receive(1), [frame(4, 100)]);
        let mut from = End::sender("packet:t0");
        from.offer(&frame(5, 100));
        assert_eq!(from.send_all(), (1, vec![]));
        assert_eq!(tap.receive(1), [frame(5, 100)]);
        [tap, to, from].iter_mut().for_each(End::assert_all_home);
    });
}

#[test]
#[ignore = "wants root"]
fn removed_under_traffic() {
    with_net(|| {
        let mut tap = End::sender("tap:t0");
        ip("link del t0");
        (0..3).for_each(|number| tap.offer(&frame(number, 100)));
        tap.device.tx_mut().unwrap().transmit(&mut tap.batch, false);
        let error = tap.device.tx_mut().unwrap().reap(0, false, &mut tap.done).unwrap_err();
        assert!(matches!(error, DeviceError::Gone { .. }), "{error}");
        assert!(error.to_string().starts_with("tap:t0: the interface is gone"), "{error}");
        assert_eq!(tap.reap(), (0, vec!["gone"; 3]));
        tap.offer(&frame(3, 100));
        assert_eq!(tap.send_all(), (0, vec!["gone"]), "for good, and told once");
        assert!(tap.device.tx_mut().unwrap().reap(0, false, &mut tap.done).is_ok());

        let mut receiver = End::receiver("tap:t1");
        ip("link del t1");
        let error = receiver
            .device
            .rx_mut()
            .unwrap()
            .receive(&mut receiver.cache, &mut receiver.batch, 64)
            .unwrap_err();
        assert!(error.to_string().starts_with("tap:t1: the interface is gone"), "{error}");
        assert!(receiver.device.rx_mut().unwrap().ended());
        [tap, receiver].iter_mut().for_each(End::assert_all_home);
    });
}

#[test]
#[ignore = "wants root"]
fn an_mtu_that_changes_under_traffic_is_heeded() {
    with_net(|| {
        let mut tap = End::sender("tap:t0");
        ip("link set t0 mtu 600");
        // It is looked at now and then.
        let mut failed = Vec::new();
        for _ in 0..200 {
            tap.offer(&frame(0, 1000));
            failed.extend(tap.send_all().1);
        }
        assert!(failed.len() > 100 && failed.iter().all(|&why| why == "too-long"), "{failed:?}");
        ip("link set t0 mtu 1500");
        tap.offer(&frame(0, 1000));
        assert_eq!(tap.send_all(), (1, vec![]), "larger at once");
        ip("link set t0 mtu 600");
        // Longer than until the next look, with a coarse clock.
        std::thread::sleep(Duration::from_millis(50));
        tap.offer(&frame(0, 1000));
        assert_eq!(tap.send_all(), (0, vec!["too-long"]), "a frame now and then finds it smaller");
        tap.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn renamed_it_is_the_same() {
    with_net(|| {
        let (mut tap, mut to) = (End::sender("tap:t0"), End::receiver("packet:t0"));
        ip("link set t0 down");
        ip("link set t0 name t9");
        tap.offer(&frame(0, 100));
        assert_eq!(tap.send_all(), (0, vec!["link-down"]));
        ip("link set t9 up");
        to = {
            drop(to);
            End::receiver("packet:t9")
        };
        tap.offer(&frame(1, 100));
        assert_eq!(tap.send_all(), (1, vec![]));
        assert_eq!(to.receive(1), [frame(1, 100)]);
        [tap, to].iter_mut().for_each(End::assert_all_home);
    });
}

fn send_one(tap: &mut End) -> (usize, Vec<&'static str>) {
    tap.offer(&frame(0, 1000));
    tap.send_all()
}

/// The device sees the new MTU without waiting for thousands of frames. A sender whose frames are all too long
/// would never send that many.
#[test]
#[ignore = "wants root"]
fn elsewhere_too_a_larger_mtu_is_seen() {
    with_net(|| {
        let (_near, mut tap) = (End::sender("tap:t0"), End::sender("tap:t1"));
        let (say, hear) = mpsc::channel();
        let (said, heard) = mpsc::channel();
        let near = || {
            // The look at which it is seen that it has been moved.
            while send_one(&mut tap) != (0, vec!["too-long"]) {}
            say.send(()).unwrap();
            heard.recv().unwrap();
            let mut frames = 0;
            eventually(Duration::from_secs(20), || {
                frames += 1;
                send_one(&mut tap) == (1, vec![])
            });
            assert!(frames < 2000, "{frames}");
            tap.assert_all_home();
            say.send(()).unwrap();
        };
        apart("t0", "t1", near, move || {
            ip("link set t1 mtu 600");
            hear.recv().unwrap();
            ip("link set t1 mtu 1500");
            said.send(()).unwrap();
            hear.recv().unwrap();
        });
    });
}

#[test]
#[ignore = "wants root"]
fn elsewhere_too_what_the_kernel_drops_is_counted() {
    with_net(|| {
        let (_near, mut tap) = (End::sender("tap:t0"), End::sender("tap:t1,ring=8"));
        let (say, hear) = mpsc::channel();
        let (said, heard) = mpsc::channel();
        let near = || {
            hear.recv().unwrap();
            let (received, mut drops) = (tap.receive_within(20, Duration::from_millis(1)).len() as u64, 0);
            let device = tap.device.rx_mut().unwrap();
            device.drops(&mut |reason, count| drops += if reason == "ring-full" { count } else { 0 });
            assert!(received < 20 && drops >= 20 - received, "{received} and {drops}");
            said.send(()).unwrap();
        };
        apart("t0", "t1", near, move || {
            send_raw("t1", &(0..20).map(|number| frame(number, 60)).collect::<Vec<_>>());
            say.send(()).unwrap();
            heard.recv().unwrap();
        });
    });
}

#[test]
#[ignore = "wants root"]
fn a_namespace_that_ends_takes_it_along() {
    with_net(|| {
        let (_near, mut tap) = (End::sender("tap:t0"), End::sender("tap:t1"));
        let (say, hear) = mpsc::channel();
        let near = || {
            tap.offer(&frame(0, 100));
            tap.send_all();
            // A look, too, and what it opens for that: nothing there may keep the namespace.
            (0..200).for_each(|_| {
                tap.offer(&frame(0, 100));
                assert_eq!(tap.send_all(), (1, vec![]));
            });
            say.send(()).unwrap();
        };
        apart("t0", "t1", near, move || hear.recv().unwrap());
        eventually(Duration::from_secs(20), || {
            tap.offer(&frame(1, 100));
            tap.send_all().1 == ["gone"]
        });
        tap.assert_all_home();
    });
}
