//! Routes, neighbours, MACs and links that change under traffic: each packet arrives or is counted, and new packets
//! go the new way soon after the kernel's own change: the longest time is printed.

use crate::rig::{Rig, eventually};
use crate::{receive, router};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use wharf_route::{Fate, RouteSender, Router};

const SOON: Duration = Duration::from_secs(10);
/// The port that all comes from, and the address that the kernel chooses.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4000);
const PORT: u16 = 9001;

/// A sender, what it has sent, and what of it has arrived.
struct Traffic {
    router: Router,
    sender: RouteSender,
    sent: u64,
    dropped: u64,
}

impl Traffic {
    fn send(&mut self, packets: u32) {
        let to = ([192, 0, 2, 1], PORT).into();
        for _ in 0..packets {
            let mut packet = self.sender.packet(8, SOON).expect("memory");
            packet.bytes_mut().copy_from_slice(&self.sent.to_be_bytes());
            self.sent += 1;
            let fate = self.sender.send_datagram(packet, ANY, to, SOON).expect("a port");
            self.dropped += u64::from(matches!(fate, Fate::Dropped(_)));
        }
    }

    /// Returns the packets that each port has had.
    fn by_port(&mut self) -> [u64; 2] {
        self.sender.flush(SOON).expect("a port");
        let accepted =
            |at: usize| self.router.ports()[at].1.queue().expect("a queue").counters().accepted.get();
        // A lane is emptied by its queue's owner.
        let end = Instant::now() + SOON;
        while accepted(0) + accepted(1) < self.router.counts().routed && Instant::now() < end {
            std::thread::yield_now();
        }
        [accepted(0), accepted(1)]
    }
}

/// Receives until the packet before `end` has come, or nothing has for a while: their numbers.
fn arrived(received: &Receiver<(SocketAddr, Vec<u8>)>, end: u64) -> Vec<u64> {
    let mut numbers = vec![];
    while numbers.last() != Some(&(end - 1)) {
        let Ok((_, bytes)) = received.recv_timeout(Duration::from_millis(300)) else { break };
        numbers.push(u64::from_be_bytes(bytes.try_into().expect("8 bytes")));
    }
    numbers
}

/// True if the kernel has the neighbour behind `port`: one that was deleted once the router asks for it.
fn has_neighbour(rig: &Rig, port: usize) -> bool {
    let n = port + 1;
    rig.sh(&format!("ip -n $A neigh show 10.{n}.0.2 dev a{n}")).contains("lladdr")
}

/// A change: a script, and the port that packets leave by afterwards.
const CHANGES: [(&str, usize); 8] = [
    ("ip -n $A route replace 192.0.2.1 via 10.2.0.2", 1),
    ("ip -n $A neigh del 10.2.0.2 dev a2", 1),
    ("ip -n $B link set b2 address 02:00:00:00:0c:02; ip -n $A neigh del 10.2.0.2 dev a2", 1),
    ("ip -n $A route replace 192.0.2.1 via 10.1.0.2 src 10.2.0.1", 0),
    ("ip -n $A link set a1 down; ip -n $A route replace 192.0.2.1 via 10.2.0.2", 1),
    ("ip -n $A link set a1 up; ip -n $A route replace 192.0.2.1 via 10.1.0.2", 0),
    (
        "ip -n $A addr del 10.1.0.1/24 dev a1; ip -n $A addr add 10.1.0.3/24 dev a1
      ip -n $A route replace 192.0.2.1 via 10.1.0.2",
        0,
    ),
    ("ip -n $A rule add to 192.0.2.1 table 7; ip -n $A route replace 192.0.2.1 via 10.2.0.2 table 7", 1),
];

#[test]
#[ignore = "root"]
fn new_packets_go_the_new_way_and_none_is_lost_unnamed() {
    let rig = Rig::new("changes", "
        ip -n $B addr add 192.0.2.1/32 dev lo; ip -n $A route add 192.0.2.1 via 10.1.0.2
        ip netns exec $B sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.b1.rp_filter=0 net.ipv4.conf.b2.rp_filter=0")
    .expect("namespaces");
    let received = receive(&format!("{}-b", rig.name), PORT);
    let router = router(&["a1", "a2"], wharf::Direction::Send);
    let sender = router.sender("test").expect("a sender");
    let mut traffic = Traffic { router, sender, sent: 0, dropped: 0 };
    traffic.send(100);
    assert_eq!(traffic.by_port(), [100, 0]);
    let mut all = arrived(&received, 100);
    let mut longest = Duration::ZERO;
    for (script, port) in CHANGES {
        rig.sh(script);
        let went_the_new_way = || {
            let then = traffic.by_port();
            // As many as the other end's socket has room for, however late its reader is.
            traffic.send(200);
            let now = traffic.by_port();
            assert_eq!(now[0] + now[1] + traffic.dropped, traffic.sent, "{script}");
            let last: Vec<u64> = (traffic.sent - 200..traffic.sent).collect();
            let come = arrived(&received, traffic.sent);
            all.extend(&come);
            now[port] - then[port] == 200
                && now[1 - port] == then[1 - port]
                && come.ends_with(&last)
                && has_neighbour(&rig, port)
        };
        longest = longest.max(eventually(script, went_the_new_way));
    }
    println!(
        "the last of 200 packets that went the new way arrived {longest:?} after the change, at the latest"
    );
    let counts = traffic.router.counts();
    assert_eq!((counts.given, counts.waiting), (traffic.sent, 0), "{counts:?}");
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), all.len(), "none comes twice");
}
