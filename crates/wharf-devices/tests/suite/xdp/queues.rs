//! Reception from several queues of an interface: by one device, by several, and by several owners of the interface.

use super::receiving::finish;
use crate::net::{enter_with, frame, ip, send_raw, with_pair};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, RawFd};
use std::time::Duration;
use wharf_devices::open::{Direction, open, open_queues};
use wharf_devices::spec::Opening;
use wharf_sys::epoll::Epoll;
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::xdp::assembler::{Assembler, Register, XDP_PASS};
use wharf_sys::xdp::{Hook, Program};
use wharf_testkit::end::End;
use wharf_testkit::pool;

const FLOWS: u16 = 1000;
const ROUNDS: u32 = 5;

/// Runs `body` in a network with `va` and `vb`, a pair of `count` queues each way.
fn with_queues(count: u32, body: impl FnOnce() + Send + 'static) {
    wharf_testkit::threads::within_a_minute(move || {
        let queues = format!("numtxqueues {count} numrxqueues {count}");
        enter_with(&format!("va {queues} type veth peer name vb {queues}"));
        ip("link set va up");
        ip("link set vb up");
        body();
    });
}

/// Returns a datagram of flow `flow`, by its source port, with the number `number`.
fn datagram(flow: u16, number: u32) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    bytes.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    bytes.extend((10_000 + flow).to_be_bytes());
    bytes.extend([0, 9, 0, 12, 0, 0]);
    bytes.extend(number.to_be_bytes());
    bytes
}

/// Returns flow and number of a datagram; `None` for other frames.
fn flow_of(bytes: &[u8]) -> Option<(u16, u32)> {
    let number = bytes.get(42..46)?.try_into().ok()?;
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    (bytes[12..14] == [8, 0]).then(|| (port - 10_000, u32::from_be_bytes(number)))
}

/// Sends `ROUNDS` datagrams of each flow, and calls `receive` now and then.
fn send_flows(mut receive: impl FnMut()) {
    for number in 0..ROUNDS {
        for first in (0..FLOWS).step_by(250) {
            let some: Vec<Vec<u8>> = (first..first + 250).map(|flow| datagram(flow, number)).collect();
            send_raw("va", &some);
            receive();
        }
    }
}

fn assert_whole(numbers: &BTreeMap<u16, Vec<u32>>) {
    assert_eq!(numbers.len(), usize::from(FLOWS));
    for (flow, numbers) in numbers {
        assert!(numbers.iter().copied().eq(0..ROUNDS), "flow {flow} has {numbers:?}");
    }
}

#[test]
#[ignore = "wants root"]
fn one_device_receives_every_flow_of_four_queues_in_order() {
    with_queues(4, || {
        let mut end = End::receiver("xdp:vb");
        assert_eq!((end.device.name().as_str(), end.device.mode()), ("xdp:vb", Some("native, copy")));
        end.receive_within(1, Duration::from_millis(1));
        let mut numbers = BTreeMap::<u16, Vec<u32>>::new();
        let mut receive = || {
            let (mut left, frames) = (250, end.receive(250));
            for (flow, number) in frames.iter().filter_map(|bytes| flow_of(bytes)) {
                numbers.entry(flow).or_default().push(number);
                left -= 1;
            }
            assert_eq!(left, 0, "frames are lost");
        };
        send_flows(&mut receive);
        assert_whole(&numbers);
        finish(end);
    });
}

#[test]
#[ignore = "wants root"]
fn four_devices_have_a_queue_each_and_no_flow_comes_by_two() {
    with_queues(4, || {
        let opened = open_queues("xdp:vb", Opening { queues: 4, ..Direction::Receive.into() }).unwrap();
        let mut ends: Vec<End> = opened.into_iter().map(|one| End::of(one.device, pool(4096))).collect();
        ends.iter_mut().for_each(|end| drop(end.receive_within(1, Duration::from_millis(1))));
        let mut numbers = BTreeMap::<u16, Vec<u32>>::new();
        let mut queues = BTreeMap::<u16, usize>::new();
        let mut of_queue = [0; 4];
        let mut receive = || {
            let mut left = 250;
            while left > 0 {
                for (at, end) in ends.iter_mut().enumerate() {
                    for bytes in end.receive_within(usize::MAX, Duration::ZERO) {
                        let Some((flow, number)) = flow_of(&bytes) else { continue };
                        assert_eq!(*queues.entry(flow).or_insert(at), at, "flow {flow} comes by two queues");
                        numbers.entry(flow).or_default().push(number);
                        of_queue[at] += 1;
                        left -= 1;
                    }
                }
            }
        };
        send_flows(&mut receive);
        assert_whole(&numbers);
        assert!(of_queue.iter().all(|&count| count > 500), "queues without work: {of_queue:?}");
        ends.into_iter().for_each(finish);
    });
}

#[test]
#[ignore = "wants root"]
fn a_device_of_several_queues_tells_of_arrivals_on_any() {
    with_queues(4, || {
        let mut end = End::receiver("xdp:vb");
        end.receive_within(1, Duration::from_millis(1));
        let fd = end.device.wait_fd().expect("a descriptor");
        for flow in 0..40 {
            assert!(end.device.arm() && !is_readable(fd, 0), "nothing has come");
            send_raw("va", &[datagram(flow, 0)]);
            assert!(is_readable(fd, 5_000_000_000), "flow {flow} is not told");
            end.device.disarm();
            assert_eq!(end.receive(1).len(), 1);
        }
        finish(end);
    });
}

/// True if `fd` becomes readable within `timeout_ns`.
fn is_readable(fd: RawFd, timeout_ns: u64) -> bool {
    let (set, mut events) = (Epoll::new().unwrap(), 0);
    set.add(fd, 0, true).unwrap();
    set.wait(timeout_ns);
    set.take_events(|_| events += 1);
    events > 0
}

#[test]
#[ignore = "wants root"]
fn a_device_of_both_sides_receives_from_all_queues_and_sends_by_the_first() {
    with_queues(2, || {
        let mut far = End::new("xdp:va", Direction::Both, 1984);
        let mut near = End::new("xdp:vb", Direction::Both, 1984);
        for end in [&mut far, &mut near] {
            end.receive_within(1, Duration::from_millis(1));
            assert!(end.device.arm());
            end.device.disarm();
        }
        let frames: Vec<Vec<u8>> = (0..500).map(|flow| datagram(flow, 1)).collect();
        for some in frames.chunks(100) {
            some.iter().for_each(|bytes| far.offer(bytes));
            assert_eq!(far.send_all(), (100, vec![]));
            assert_eq!(near.receive(100), some);
        }
        send_raw("va", &frames[..100]);
        assert_eq!(near.receive(100).len(), 100, "by either queue");
        finish(near);
        finish(far);
    });
}

#[test]
#[ignore = "wants root"]
fn rings_of_odd_sizes_are_rounded_up() {
    with_queues(2, || {
        for ring in [64, 100, 511, 65536] {
            let mut end = End::receiver(&format!("xdp:vb,ring={ring}"));
            end.receive_within(1, Duration::from_millis(1));
            send_raw("va", &[datagram(1, 1)]);
            assert_eq!(end.receive(1).len(), 1);
            finish(end);
            let mut end = End::sender(&format!("xdp:va,ring={ring}"));
            let entries = end.device.as_tx().unwrap().info().ring_frames;
            assert_eq!(entries, Some(u32::next_power_of_two(ring)));
            (0..200).for_each(|number| end.offer(&frame(number, 100)));
            assert_eq!(end.send_all(), (200, vec![]));
            end.assert_all_home();
        }
    });
}

#[test]
#[ignore = "wants root"]
fn a_queue_that_is_not_there_gives_its_error() {
    with_queues(2, || {
        for spec in ["xdp:vb,queue=2", "xdp:vb,queue=1-2"] {
            let mut device = open(spec, Direction::Receive).unwrap().device;
            let message = device.attach(pool(256).region().clone()).unwrap_err().to_string();
            assert!(message.contains("no queue 2"), "{message}");
        }
        let refused = open_queues("xdp:vb,queue=0-1", Opening { queues: 3, ..Direction::Send.into() });
        let message = refused.unwrap_err().to_string();
        assert_eq!(message, "xdp:vb: queue=0-1 has 2 queues, for 3 devices");
    });
}

#[test]
#[ignore = "wants root"]
fn an_interface_is_promiscuous_while_a_receiver_wants_it() {
    with_pair(|| {
        let promiscuity = || {
            let shown = std::process::Command::new("ip").args(["-d", "link", "show", "vb"]).output().unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            shown.split("promiscuity ").nth(1).unwrap().split(' ').next().unwrap().to_string()
        };
        for (spec, wants) in [("xdp:vb", "1"), ("xdp:vb,promisc=off", "0")] {
            let end = End::receiver(spec);
            assert_eq!(promiscuity(), wants, "{spec}");
            finish(end);
            assert_eq!(promiscuity(), "0", "{spec}, closed");
        }
        drop(End::sender("xdp:vb"));
        assert_eq!(promiscuity(), "0");
    });
}
#[test]
#[ignore = "wants root"]
fn two_owners_of_different_queues_share_the_program() {
    with_queues(2, || {
        let mut ends = [End::receiver("xdp:vb,queue=0"), End::receiver("xdp:vb,queue=1")];
        ends.iter_mut().for_each(|end| drop(end.receive_within(1, Duration::from_millis(1))));
        let frames: Vec<Vec<u8>> = (0..200).map(|flow| datagram(flow, 0)).collect();
        send_raw("va", &frames);
        let received = ends.each_mut().map(|end| end.receive_within(200, Duration::from_millis(200)).len());
        assert!(
            received.iter().sum::<usize>() == 200 && received.iter().all(|&count| count > 40),
            "{received:?}"
        );
        // The first goes, with all that it holds of the program.
        let [first, mut second] = ends;
        finish(first);
        send_raw("va", &frames);
        assert_eq!(second.receive_within(received[1], Duration::from_secs(5)).len(), received[1]);
        assert!(has_program(), "it stays with the second");
        finish(second);
        assert!(!has_program(), "it goes with the last");
    });
}

fn has_program() -> bool {
    let shown = std::process::Command::new("ip").args(["link", "show", "vb"]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("xdp")
}

#[test]
#[ignore = "wants root"]
fn a_queue_of_another_owner_gives_its_error() {
    with_queues(2, || {
        let end = End::receiver("xdp:vb,queue=1");
        let mut device = open("xdp:vb", Direction::Receive).unwrap().device;
        let message = device.attach(pool(256).region().clone()).unwrap_err().to_string();
        assert!(message.contains("queue 1 is in use by another AF_XDP socket"), "{message}");
        finish(end);
    });
}

#[test]
#[ignore = "wants root"]
fn a_foreign_program_gives_its_error_and_stays() {
    with_pair(|| {
        let mut code = Assembler::new();
        code.set(Register::R0, XDP_PASS);
        code.exit();
        let socket = InterfaceSocket::open().unwrap();
        let index = Interface::find(socket.as_fd(), "vb").unwrap().index;
        let foreign = Program::load(&code.finish()).unwrap().attach(index, Hook::Native).unwrap();
        for spec in ["xdp:vb", "xdp:vb,queue=0"] {
            let mut device = open(spec, Direction::Receive).unwrap().device;
            let message = device.attach(pool(256).region().clone()).unwrap_err().to_string();
            assert!(
                message.contains("vb has an XDP program already") && !message.contains('\n'),
                "{message}"
            );
        }
        assert!(has_program());
        drop(foreign);
        finish(End::receiver("xdp:vb"));
    });
}
