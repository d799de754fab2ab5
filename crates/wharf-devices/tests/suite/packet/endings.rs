//! Interfaces that are not there, or go away.

use crate::net::{frame, ip, wait_until, with_pair};
use std::time::Duration;
use wharf_core::device::DeviceError;
use wharf_devices::open::{Direction, open};
use wharf_testkit::end::End;
use wharf_testkit::threads::eventually;

const SOON: Duration = Duration::from_secs(20);

fn fault(spec: &str, direction: Direction) -> String {
    let message = open(spec, direction).map(|opened| opened.device.name()).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

#[test]
#[ignore = "wants root"]
fn unusable_interface_fails_to_open() {
    with_pair(|| {
        for direction in [Direction::Send, Direction::Receive] {
            let message = fault("packet:nowhere", direction);
            assert!(message.starts_with("packet:nowhere: no such interface"), "{message}");
            assert!(fault("packet:a-name-much-too-long", direction).contains("no such interface"));
        }
        ip("link set va down");
        for direction in [Direction::Send, Direction::Receive] {
            let message = fault("packet:va", direction);
            assert!(
                message.starts_with("packet:va: the interface is down: `ip link set va up`"),
                "{message}"
            );
        }
        // The kernel sees a little later that the other end is down.
        eventually(SOON, || open("packet:vb", Direction::Send).is_err());
        let message = fault("packet:vb", Direction::Send);
        assert!(message.starts_with("packet:vb: vb has no carrier"), "{message}");
    });
}

/// While it is, the kernel does not find it by its name for milliseconds: that is not the end of it.
#[test]
#[ignore = "wants root"]
fn renamed_under_traffic() {
    with_pair(|| {
        let (mut from, mut to) = (End::sender("packet:va"), End::receiver("packet:vb"));
        ip("link set va down");
        std::thread::scope(|scope| {
            let renaming = scope.spawn(|| {
                for _ in 0..20 {
                    ip("link set va name vz");
                    ip("link set vz name va");
                }
            });
            while !renaming.is_finished() {
                from.offer(&frame(0, 100));
                assert_eq!(from.send_all(), (0, vec!["link-down"]));
                let received = to.device.rx_mut().unwrap().receive(&mut to.cache, &mut to.batch, 64);
                assert_eq!(received.map_err(|error| error.to_string()), Ok(0));
            }
        });
        ip("link set va name vy");
        ip("link set vy up");
        wait_until("vy", true);
        from.offer(&frame(1, 100));
        assert_eq!(from.send_all(), (1, vec![]));
        assert_eq!(to.receive(1), [frame(1, 100)]);
        [from, to].iter_mut().for_each(End::assert_all_home);
    });
}

#[test]
#[ignore = "wants root"]
fn removed_under_traffic() {
    with_pair(|| {
        let (mut from, mut to) = (End::sender("packet:va"), End::receiver("packet:vb"));
        (0..40).for_each(|number| from.offer(&frame(number, 100)));
        assert_eq!(from.send_all(), (40, vec![]));
        ip("link del va");
        (0..40).for_each(|number| from.offer(&frame(number, 100)));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(256, false, &mut from.done).unwrap_err().to_string();
        assert!(error.starts_with("packet:va: the interface is gone"), "{error}");
        assert_eq!(from.reap(), (0, vec!["gone"; 40]));
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (0, vec!["gone"]), "for good, and told once");
        assert!(from.device.tx_mut().unwrap().reap(256, false, &mut from.done).is_ok());
        from.assert_all_home();

        assert_eq!(to.receive(40).len(), 40, "frames that had come are still received");
        let error = loop {
            match to.device.rx_mut().unwrap().receive(&mut to.cache, &mut to.batch, 64) {
                Ok(count) => assert!(count == 0 && !to.device.rx_mut().unwrap().ended()),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("packet:vb: the interface is gone"), "{error}");
        assert!(to.device.rx_mut().unwrap().ended());
        to.assert_all_home();
    });
}

#[test]
#[ignore = "wants root"]
fn down_and_up_again() {
    with_pair(|| {
        let mut from = End::sender("packet:va");
        ip("link set va down");
        from.offer(&frame(0, 100));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(256, false, &mut from.done).unwrap_err().to_string();
        assert!(error.starts_with("packet:va: the interface is down"), "{error}");
        assert_eq!(from.reap(), (0, vec!["link-down"]));
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (0, vec!["link-down"]));
        ip("link set va up");
        from.offer(&frame(0, 100));
        assert_eq!(from.send_all(), (1, vec![]));
        from.assert_all_home();
    });
}

/// A frame longer than a slot goes by a call of its own, and it is the kernel that finds it too long.
#[test]
#[ignore = "wants root"]
fn mtu_shrinking_under_traffic_gives_an_mtu_error() {
    with_pair(|| {
        // The ring's slots are made for the MTU of the beginning.
        let mut from = End::new("packet:va", Direction::Send, 16_384 - 64);
        ip("link set va mtu 9000");
        ip("link set vb mtu 9000");
        from.offer(&frame(7, 9000));
        assert_eq!(from.send_all(), (1, vec![]));
        ip("link set va mtu 600");
        from.offer(&frame(8, 9000));
        from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
        let error = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).unwrap_err().to_string();
        assert!(error.contains("a frame of 9000 bytes is too long: va's MTU of 600"), "{error}");
        assert_eq!(from.reap(), (0, vec!["too-long"]));
        from.assert_all_home();
    });
}

/// A veth drops frames too long for its other end, and the kernel reports that as no room for now.
#[test]
#[ignore = "wants root"]
fn the_other_ends_mtu_too_small_is_no_wait_without_end() {
    with_pair(|| {
        ip("link set va mtu 9000");
        let mut from = End::new("packet:va", Direction::Send, 16_384 - 64);
        for len in [3000, 9000] {
            from.offer(&frame(1, len));
            let mut told = None;
            eventually(SOON, || {
                from.device.tx_mut().unwrap().transmit(&mut from.batch, false);
                told = from.device.tx_mut().unwrap().reap(0, false, &mut from.done).err();
                told.is_some()
            });
            let error = told.unwrap();
            let is_lost = matches!(error, DeviceError::Down { .. });
            assert!(is_lost && error.to_string().contains("MTU"), "{len} bytes: {error}");
            assert_eq!(from.reap(), (0, vec!["refused"]));
            from.offer(&frame(2, 100));
            assert_eq!(from.send_all(), (1, vec![]));
        }
        from.assert_all_home();
    });
}
