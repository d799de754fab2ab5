//! Multicast groups: what is sent to one arrives at its members, plain sockets and devices alike.

use super::rig::{PATIENCE, Rig, frame, parsed};
use crate::net;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use wharf_devices::open::{Direction, open};
use wharf_testkit::free_udp;
use wharf_testkit::threads::eventually;

/// An address for the frames of senders: the kernel sends from its own.
fn anyone() -> SocketAddr {
    "192.0.2.1:1".parse().unwrap()
}

/// Sends 100 datagrams, the first byte of each being its number.
fn send_100(rig: &mut Rig, group: SocketAddr) {
    (0..100).for_each(|number| rig.offer(&frame(anyone(), group, &[number; 20])));
    assert_eq!(rig.send(), 100);
}

/// Checks that the next frames of `rig` are those of [`send_100`], and no others come.
#[track_caller]
fn assert_has_100(rig: &mut Rig, group: SocketAddr) {
    let received = rig.receive(100, 16);
    let payloads = received.iter().map(|frame| {
        let (_, to, payload) = parsed(frame);
        assert_eq!(to, group);
        payload
    });
    assert_eq!(payloads.collect::<Vec<_>>(), (0..100).map(|number| vec![number; 20]).collect::<Vec<_>>());
    let (pool, mut more) = (rig.pool.clone(), wharf_mem::Batch::new(256));
    assert_eq!(rig.device.rx_mut().unwrap().receive(&mut rig.cache, &mut more, 256).unwrap(), 0);
    assert_eq!(pool.audit().out(), 0);
}

/// Groups of this test's process, so that others beside it do not send there.
fn groups() -> [SocketAddr; 2] {
    let ([high, low], port) = ((std::process::id() as u16).to_be_bytes(), free_udp("127.0.0.1").port());
    [1, 2].map(|last| (Ipv4Addr::new(239, 192 + (high & 3), low, last), port).into())
}

#[test]
fn what_is_sent_to_a_group_arrives_at_a_plain_member() {
    let [group, _] = groups();
    let member = UdpSocket::bind(group).unwrap();
    member.set_read_timeout(Some(PATIENCE)).unwrap();
    let SocketAddr::V4(address) = group else { panic!("{group}") };
    member.join_multicast_v4(address.ip(), &Ipv4Addr::LOCALHOST).unwrap();
    let mut sender = Rig::open(&format!("udp:{group},interface=lo"), Direction::Send);
    send_100(&mut sender, group);
    for number in 0..100 {
        let mut bytes = [0; 64];
        assert_eq!((member.recv(&mut bytes).unwrap(), bytes[0]), (20, number));
    }
    sender.assert_all_home();
}

#[test]
fn each_device_of_a_group_has_all_its_datagrams_and_joins_again_when_it_is_opened_again() {
    let [group, other] = groups();
    let spec = |group: SocketAddr| format!("udp:{group},interface=lo");
    let mut sender = Rig::open(&spec(group), Direction::Send);
    let mut to_other = Rig::open(&spec(other), Direction::Send);
    let [mut one, mut two] = [(); 2].map(|()| Rig::open(&spec(group), Direction::Receive));
    let mut elsewhere = Rig::open(&spec(other), Direction::Receive);
    for direction in [Direction::Send, Direction::Receive, Direction::Both] {
        send_100(&mut to_other, other);
        send_100(&mut sender, group);
        [&mut one, &mut two].into_iter().for_each(|rig| assert_has_100(rig, group));
        assert_has_100(&mut elsewhere, other);
        // What comes while it is closed is not for it.
        one.device.rx_mut().unwrap().close().unwrap();
        send_100(&mut sender, group);
        assert_has_100(&mut two, group);
        one = Rig::open(&format!("{},dest=frame", spec(group)), direction);
    }
}

#[test]
fn a_group_whose_way_is_not_said_and_an_interface_that_is_none_are_refused() {
    let error = |spec: &str, direction| open(spec, direction).unwrap_err().to_string();
    let both = error("udp:239.1.1.1:9000", Direction::Both);
    assert!(both.contains("dest=frame") && both.contains("dest=socket"), "{both}");
    assert!(open("udp:239.1.1.1:9000,dest=socket,interface=lo", Direction::Both).is_ok());
    let none = error("udp:239.1.1.1:9000,interface=nowhere0", Direction::Receive);
    assert!(none.contains("interface=nowhere0: No such device"), "{none}");
}

/// Opens a device once the kernel lets it: an IPv6 address may still be new.
fn opened(spec: &str, direction: Direction) -> Rig {
    eventually(PATIENCE, || open(spec, direction).is_ok());
    Rig::open(spec, direction)
}

fn allow_ipv6(interface: &str) {
    for (setting, value) in [("accept_dad", "0"), ("disable_ipv6", "0")] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{setting}"), value).unwrap();
    }
}

#[test]
#[ignore = "wants root"]
fn members_on_another_host_have_what_is_sent_by_route_by_zone_and_by_interface() {
    let ways = [
        ("udp:239.77.0.1:9000", "udp:239.77.0.1:9000", "239.77.0.1:9000"),
        ("udp:224.0.0.77:9000,interface=va", "udp:224.0.0.77:9000,interface=vb", "224.0.0.77:9000"),
        ("udp:[ff15::77]:9000,interface=va", "udp:[ff15::77]:9000,interface=vb", "[ff15::77]:9000"),
        ("udp:[ff02::77%va]:9000", "udp:[ff02::77%vb]:9000", "[ff02::77]:9000"),
        ("udp:[ff02::78]:9000,interface=va", "udp:[ff02::78]:9000,interface=vb", "[ff02::78]:9000"),
    ];
    for (to, from, group) in ways {
        let group: SocketAddr = group.parse().unwrap();
        let (end, ended) = mpsc::channel();
        let near = move || {
            allow_ipv6("va");
            net::ip("route add 239.0.0.0/8 dev va");
            let mut rig = opened(to, Direction::Send);
            eventually(PATIENCE, || {
                rig.offer(&frame(anyone(), "192.0.2.2:1".parse().unwrap(), &[7; 30]));
                rig.send();
                ended.try_recv().is_ok()
            });
        };
        let far = move || {
            allow_ipv6("vb");
            net::ip("route add 239.0.0.0/8 dev vb");
            let mut rig = opened(from, Direction::Receive);
            let received = rig.receive(20, 8);
            end.send(()).unwrap();
            assert!(received.len() >= 20, "{from}: {}", received.len());
            assert!(received.iter().all(|frame| parsed(frame).1 == group), "{from}");
        };
        net::with_two(near, far);
    }
}

#[test]
#[ignore = "wants root"]
fn a_group_without_a_route_wants_its_interface() {
    net::with_net(|| {
        net::ip("link set lo up");
        let error = open("udp:239.1.1.1:9000", Direction::Receive).unwrap_err().to_string();
        assert!(error.contains("no route leads to the group: interface=IF"), "{error}");
    });
}
