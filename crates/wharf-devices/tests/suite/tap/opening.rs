//! Interfaces that are made, taken over, kept, shared, or refused.

use crate::net::{frame, ip, with_net};
use std::process::Command;
use wharf_devices::open::{Direction, open};
use wharf_testkit::end::End;

fn fault(spec: &str) -> String {
    let message = open(spec, Direction::Send).map(|opened| opened.device.name()).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message:?}");
    message
}

fn is_there(name: &str) -> bool {
    let shown = Command::new("ip").args(["link", "show", name]).output().unwrap();
    shown.status.success()
}

fn details(name: &str) -> String {
    let shown = Command::new("ip").args(["-d", "link", "show", name]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

#[test]
#[ignore = "wants root"]
fn one_that_is_made_goes_with_its_device() {
    with_net(|| {
        let opened = open("tap:t0,mtu=9000,ring=64", Direction::Receive).unwrap();
        let shown = details("t0");
        assert!(shown.contains("mtu 9000") && shown.contains("qlen 64") && shown.contains(",UP"), "{shown}");
        assert!(opened.device.mode().is_some_and(|mode| mode.starts_with("tso")));
        assert!(!opened.device.as_tx().unwrap().info().has_real_completions());
        drop(opened);
        assert!(!is_there("t0"));
        let mut opened = open("tap:t0,offload=off", Direction::Receive).unwrap();
        assert_eq!(opened.device.mode(), Some("no offloads"));
        opened.device.close().unwrap();
        assert!(
            !is_there("t0") && opened.device.rx_mut().unwrap().ended() && opened.device.wait_fd().is_none()
        );
    });
}

#[test]
#[ignore = "wants root"]
fn one_that_stays_is_taken_over_and_left() {
    with_net(|| {
        ip("tuntap add t0 mode tap");
        ip("link set t0 mtu 1234");
        let mut tap = End::sender("tap:t0");
        assert!(details("t0").contains("mtu 1234"));
        tap.offer(&frame(0, 100));
        assert_eq!(tap.send_all(), (1, vec![]));
        drop(tap);
        let shown = details("t0");
        assert!(shown.contains("mtu 1234") && shown.contains("persist on"), "{shown}");
        // The interface stays or goes as `persist` says.
        drop(open("tap:t0,persist=off", Direction::Send).unwrap());
        assert!(!is_there("t0"));
        drop(open("tap:t0,persist=on", Direction::Send).unwrap());
        assert!(is_there("t0"));
    });
}

/// The next user of the interface may not know super-packets.
#[test]
#[ignore = "wants root"]
fn offloads_do_not_stay_on_a_persistent_interface() {
    with_net(|| {
        let segments = || {
            let shown = Command::new("ethtool").args(["-k", "t0"]).output().unwrap();
            String::from_utf8(shown.stdout).unwrap().contains("tx-tcp-segmentation: on")
        };
        let mut opened = open("tap:t0,persist=on", Direction::Send).unwrap();
        assert!(segments());
        opened.device.close().unwrap();
        assert!(is_there("t0") && !segments());
    });
}

#[test]
#[ignore = "wants root"]
fn unopenable_interface_gives_one_line() {
    with_net(|| {
        ip("link add va type veth peer name vb");
        ip("tuntap add layer3 mode tun");
        for name in ["va", "layer3"] {
            assert!(
                fault(&format!("tap:{name}"))
                    .starts_with(&format!("tap:{name}: the interface of that name is no TAP"))
            );
        }
        // A macvtap interface is a TAP whose other end is another interface's network.
        ip("link add link va name mv type macvtap mode bridge");
        let index = std::fs::read_to_string("/sys/class/net/mv/ifindex");
        if index.is_ok_and(|index| std::path::Path::new(&format!("/dev/tap{}", index.trim())).exists()) {
            open("tap:mv", Direction::Both).unwrap();
        }
        let _first = open("tap:t0", Direction::Send).unwrap();
        let message = fault("tap:t0");
        assert!(message.starts_with("tap:t0: it is in use; several queues of one interface"), "{message}");
        let message = fault("tap:t0,multi_queue=on");
        assert!(message.contains("has one queue only"), "{message}");
        assert!(fault("tap:a/b").contains("no name of an interface"));
        let message = fault("tap:t1,mtu=65521,sndbuf=0");
        assert!(message.contains("sndbuf: 0 cannot be"), "{message}");
        assert!(!is_there("t1"));
    });
}

#[test]
#[ignore = "wants root"]
fn queues_of_one_interface_keep_a_flow_together() {
    with_net(|| {
        let mut queues: Vec<End> = (0..4).map(|_| End::sender("tap:t0,multi_queue=on")).collect();
        let mut kernel = End::sender("packet:t0");
        let udp = |flow: u8, number: u8| {
            let mut bytes = frame(number.into(), 100);
            bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 86, 0, 0, 0x40, 0, 64, 17]);
            bytes[26..42].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 4, flow, 0, 9, 0, 66, 0, 0]);
            bytes[42] = number;
            bytes
        };
        for number in 0..8 {
            for flow in 0..20 {
                kernel.offer(&udp(flow, number));
            }
        }
        assert_eq!(kernel.send_all(), (160, vec![]));
        let mut queue_of = [None; 20];
        let mut seen = [0u8; 20];
        for (at, queue) in queues.iter_mut().enumerate() {
            for bytes in queue.receive_within(160, std::time::Duration::from_millis(300)) {
                let flow = usize::from(bytes[35]);
                assert_eq!(*queue_of[flow].get_or_insert(at), at, "flow {flow} by two queues");
                assert_eq!(bytes[42], seen[flow], "flow {flow} out of order");
                seen[flow] += 1;
            }
            queue.assert_all_home();
        }
        assert_eq!(seen, [8; 20]);
        let used: std::collections::BTreeSet<_> = queue_of.iter().collect();
        assert!(used.len() > 1, "all flows by one queue");
        kernel.assert_all_home();
        // One queue may go, and the others stay.
        drop(queues.pop());
        assert!(is_there("t0"));
        drop(queues);
        assert!(!is_there("t0"));
    });
}
