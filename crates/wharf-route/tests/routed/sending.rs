//! What a sender sends, as the kernel's sockets at the other end see it, and what it drops.

use crate::rig::Rig;
use crate::{receive, router};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use wharf::net::{ETHERNET_BYTES, UdpHeaders};
use wharf::{Direction, Packet, Wait};
use wharf_route::{Fate, Reason, RouteSender};

pub const SOON: Duration = Duration::from_secs(10);
/// The port that all comes from, and the address that the kernel chooses.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4000);
const PORT: u16 = 9000;

fn send(sender: &mut RouteSender, to: &str, bytes: u32) -> Fate {
    send_to(sender, SocketAddr::new(to.parse().expect("an address"), PORT), bytes)
}

/// Sends a datagram from the address that the kernel chooses. Each of its bytes is the length of the
/// destination's text.
pub fn send_to(sender: &mut RouteSender, to: SocketAddr, bytes: u32) -> Fate {
    let mut packet = sender.packet(bytes, SOON).expect("memory");
    packet.bytes_mut().fill(to.ip().to_string().len() as u8);
    sender.send_datagram(packet, ANY, to, SOON).expect("a port")
}

/// The source address that the kernel's own socket has for a destination.
pub fn source_of(to: SocketAddr) -> IpAddr {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect(to).expect("a route");
    socket.local_addr().expect("an address").ip()
}

#[test]
#[ignore = "root"]
fn datagrams_arrive_from_the_source_that_the_kernel_chooses() {
    let rig = Rig::new("sending", "
        ip -n $B addr add 192.0.2.1/32 dev lo; ip -n $B addr add 192.0.2.9/32 dev lo
        ip -n $B addr add 2001:db8::1/128 dev lo nodad
        ip -n $A route add 192.0.2.0/29 via 10.2.0.2
        ip -n $A route add 192.0.2.9 via 10.1.0.2 src 10.2.0.1
        ip -n $A route add 2001:db8::/64 via fe80::b:2 dev a2
        ip netns exec $B sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.b1.rp_filter=0 net.ipv4.conf.b2.rp_filter=0
        for n in $A $B; do
          ip -n $n link add vx type vxlan id 7 dstport 4789 $([ $n = $A ] && echo remote 10.2.0.2 || echo remote 10.2.0.1)
          ip -n $n link set vx up
        done
        ip -n $A addr add 10.7.0.1/24 dev vx; ip -n $B addr add 10.7.0.2/24 dev vx")
    .expect("vxlan");
    let received = receive(&format!("{}-b", rig.name), PORT);
    let router = router(&["a1", "a2"], Direction::Send);
    let mut sender = router.sender("test").expect("a sender");
    // On the link, by a gateway, by another source, IPv6 by a link-local gateway, an unknown neighbour, in
    // a tunnel.
    let all = ["10.1.0.2", "192.0.2.1", "192.0.2.9", "2001:db8::1", "fd01::2", "10.7.0.2"];
    rig.sh("ip -n $A neigh flush dev a1; ip -n $A neigh del 10.1.0.2 dev a1 2>/dev/null || true");
    for to in all {
        let fate = send(&mut sender, to, 100);
        assert!(matches!(fate, Fate::Routed | Fate::Waits), "{to}: {fate:?}");
        let left = sender.flush(SOON).expect("a port");
        assert_eq!((left.waiting, left.left), (0, 0), "{to}: {:?}", router.counts());
        let (from, bytes) = received.recv_timeout(SOON).unwrap_or_else(|_| panic!("{to} did not arrive"));
        let source = from.ip().to_canonical();
        assert_eq!(
            (source, from.port(), bytes),
            (
                source_of(SocketAddr::new(to.parse().expect("an address"), PORT)),
                4000,
                vec![to.len() as u8; 100]
            ),
            "{to}"
        );
    }
    let counts = router.counts();
    assert_eq!((counts.given, counts.routed, counts.waiting), (6, 6, 0), "{counts:?}");
}

#[test]
#[ignore = "root"]
fn what_does_not_leave_is_counted_by_its_reason() {
    let rig = Rig::new(
        "reasons",
        "
        ip -n $A route add unreachable 192.0.2.1; ip -n $A route add prohibit 192.0.2.2
        ip -n $A route add blackhole 192.0.2.3; ip -n $A route add 192.0.2.4 via 10.2.0.2
        ip -n $A link set a1 mtu 1000",
    )
    .expect("routes");
    let router = router(&["a1"], Direction::Send);
    let mut sender = router.sender("test").expect("a sender");
    let mut dropped = |to, bytes| match send(&mut sender, to, bytes) {
        Fate::Dropped(reason) => reason,
        fate => panic!("{to}: {fate:?}"),
    };
    assert_eq!(dropped("203.0.113.1", 100), Reason::NoRoute);
    assert_eq!(dropped("192.0.2.1", 100), Reason::Unreachable);
    assert_eq!(dropped("192.0.2.2", 100), Reason::Prohibited);
    assert_eq!(dropped("192.0.2.3", 100), Reason::Blackhole);
    assert_eq!(dropped("192.0.2.4", 100), Reason::NoPort);
    // Nobody answers there, and that is no matter.
    assert_eq!(dropped("10.2.0.99", 100), Reason::NoPort);
    assert_eq!(dropped("10.1.0.78", 1200), Reason::TooBig);
    assert_eq!(dropped("10.1.0.1", 100), Reason::ThisHost);
    assert_eq!(dropped("10.1.0.2", 1200), Reason::TooBig);
    let packet = sender.packet(3, SOON).expect("memory");
    assert_eq!(sender.send(packet, Wait::Never).expect("a port"), Fate::Dropped(Reason::Malformed));

    // Nobody has this address: the packets wait as long as the kernel asks, a bounded number of them.
    let most = (0..1000).map(|_| {
        send(&mut sender, "10.1.0.77", 900);
        router.counts().waiting
    });
    let most = most.max();
    assert!(most.is_some_and(|most| (200..300).contains(&most)), "{most:?}");
    let left = sender.flush(SOON).expect("a port");
    assert_eq!(left.waiting, 0);
    drop(sender);
    let counts = router.counts();
    assert_eq!(counts.dropped(Reason::NoNeighbour), 1000, "{counts:?}");
    let all: u64 = counts.drops().map(|(_, count)| count).sum();
    assert_eq!((counts.given, counts.routed + all, counts.waiting), (1010, 1010, 0), "{counts:?}");
    assert_eq!(router.ports()[0].1.close(SOON).out(), 0);
    drop(rig);
}

/// Returns a payload that says which packet to which destination it is.
fn numbered(sender: &mut RouteSender, number: u8, to: u8) -> Packet {
    let mut packet = sender.packet(100, SOON).expect("memory");
    packet.bytes_mut().fill(to);
    packet.bytes_mut()[0] = number;
    packet
}

#[test]
#[ignore = "root"]
fn bursts_keep_the_order_of_each_destination_and_add_up() {
    let rig = Rig::new(
        "bursts",
        "
        ip -n $B addr add 192.0.2.1/32 dev lo; ip -n $A route add 192.0.2.0/29 via 10.1.0.2
        ip -n $A route add blackhole 192.0.2.3",
    )
    .expect("routes");
    rig.sh("ip -n $A neigh del 10.1.0.2 dev a1 2>/dev/null || true");
    let received = receive(&format!("{}-b", rig.name), PORT);
    let router = router(&["a1"], Direction::Send);
    let mut sender = router.sender("test").expect("a sender");
    let all = ["10.1.0.2", "192.0.2.1", "192.0.2.3", "203.0.113.1"];
    let to = all.map(|to| SocketAddr::new(to.parse().expect("an address"), PORT));
    let mut next = [0_u8; 2];
    // The neighbour is unknown at first; later all headers are known.
    for round in 0..3_u8 {
        let each = |at: u8| (numbered(&mut sender, round * 10 + at / 4, at % 4), to[usize::from(at % 4)]);
        let datagrams: Vec<_> = (0..40).map(each).collect();
        sender.send_datagrams(datagrams, ANY, SOON).expect("a port");
        assert_eq!(sender.flush(SOON).expect("a port").waiting, 0);
        for _ in 0..20 {
            let (_, bytes) = received.recv_timeout(SOON).expect("a datagram");
            let next = &mut next[usize::from(bytes[1])];
            assert_eq!(bytes[0], *next, "to {}", all[usize::from(bytes[1])]);
            *next += 1;
        }
    }
    let mut burst = router.pool().burst(40);
    for at in 0..40 {
        let mut packet = numbered(&mut sender, 30 + at / 2, 1);
        if at % 2 == 0 {
            let from = SocketAddr::new(source_of(to[1]), 4000);
            UdpHeaders::between(from, to[1]).expect("headers").put(&mut packet).expect("headroom");
            packet.trim_front(ETHERNET_BYTES).expect("an IP packet");
        }
        burst.push(packet).expect("room");
    }
    sender.send_all(&mut burst, SOON).expect("a port");
    assert_eq!((burst.len(), sender.flush(SOON).expect("a port").left), (0, 0));
    let numbers: Vec<_> = (0..20).map(|_| received.recv_timeout(SOON).expect("a datagram").1[0]).collect();
    assert_eq!(numbers, (30..50).collect::<Vec<u8>>());
    let counts = router.counts();
    assert_eq!((counts.given, counts.routed, counts.waiting), (160, 80, 0), "{counts:?}");
    let dropped =
        [Reason::Blackhole, Reason::NoRoute, Reason::Malformed].map(|reason| counts.dropped(reason));
    assert_eq!(dropped, [30, 30, 20], "{counts:?}");
}
