//! A router of our own between two hosts, whose kernels talk to each other.

use crate::rig::Rig;
use crate::router;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wharf::net::checksum::{fold, sum};
use wharf::net::{IpHeader, UDP};
use wharf::queue::Rest;
use wharf::{Burst, Direction, Wait};
use wharf_route::{Fate, Reason, Router};

const SOON: Duration = Duration::from_secs(5);

/// Forwards what arrives at each port.
fn serve(router: &Router) {
    for (at, (name, port)) in router.ports().iter().enumerate() {
        let mut sender = router.sender(name).expect("a sender");
        port.on_receive(move |burst: &mut Burst| {
            // An error says that a port is being closed.
            _ = sender.forward_all(burst, at, Wait::Never);
            _ = sender.flush(Wait::Never);
            Rest::Free
        })
        .expect("a handler");
    }
}

/// A process that ends with the test.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
#[ignore = "root"]
fn frames_that_lie_are_malformed_and_martians_go_nowhere() {
    let rig = Rig::new("hostile", "ip netns exec $A sysctl -qw net.ipv4.ip_forward=0").expect("namespaces");
    let router = router(&["a1", "a2"], Direction::Send);
    let mut sender = router.sender("test").expect("a sender");
    let ipv4 = |source: [u8; 4], to: [u8; 4], total: u16, bytes: usize| {
        let mut frame = vec![0; 14 + bytes];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0x0a, 1, 2, 0, 0, 0, 0x0b, 1, 8, 0]);
        IpHeader::new(source.into(), to.into(), UDP).write(&mut frame[14..], bytes - 20).expect("a header");
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[24..26].fill(0);
        let checksum = !fold(sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame
    };
    let mut fate = |bytes: &[u8]| {
        let mut packet = sender.packet(bytes.len() as u32, SOON).expect("memory");
        packet.bytes_mut().copy_from_slice(bytes);
        sender.forward(packet, 0, SOON).expect("a port")
    };
    let (host, far) = ([10, 1, 0, 2], [10, 2, 0, 2]);
    assert_eq!(fate(&ipv4(host, far, 46, 46)), Fate::Routed);
    for total in (0..28).chain([47, 1500, 65535]) {
        let expected =
            if (20..=46).contains(&total) { Fate::Routed } else { Fate::Dropped(Reason::Malformed) };
        assert_eq!(fate(&ipv4(host, far, total, 46)), expected, "{total}");
    }
    for end in 0..34 {
        let fate = fate(&ipv4(host, far, 46, 46)[..end]);
        assert!(matches!(fate, Fate::Dropped(Reason::Malformed | Reason::NotForwarded)), "{end}: {fate:?}");
    }
    let mut other = ipv4(host, far, 46, 46);
    other[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(fate(&other), Fate::Dropped(Reason::Malformed));
    let mut wrong = ipv4(host, far, 46, 46);
    wrong[25] ^= 1;
    assert_eq!(fate(&wrong), Fate::Dropped(Reason::Malformed));
    for source in [[255; 4], [127, 0, 0, 1], [224, 0, 0, 1], [241, 0, 0, 1], [0; 4]] {
        assert_eq!(fate(&ipv4(source, far, 46, 46)), Fate::Dropped(Reason::NotForwarded), "{source:?}");
    }
    // A router that is dropped ends, though a handler has a sender.
    drop(sender);
    drop(router);
    drop(rig);
}

#[test]
#[ignore = "root"]
fn hosts_reach_each_other_and_are_told_what_cannot_pass() {
    let rig = Rig::new(
        "forward",
        "
        ip netns del $A-c 2>/dev/null || true; ip netns add $A-c
        ip -n $B link set b2 netns $A-c; ip -n $A-c link set lo up; ip -n $A-c link set b2 up
        ip -n $A-c addr add 10.2.0.2/24 dev b2; ip -n $A-c addr add fd02::2/64 dev b2 nodad
        ip -n $B route add default via 10.1.0.1; ip -n $B route add default via fd01::1
        ip -n $A-c route add default via 10.2.0.1; ip -n $A-c route add default via fd02::1
        ip -n $A link set a2 mtu 1300
        ip netns exec $A sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0",
    )
    .expect("namespaces");
    let router = router(&["a1", "a2"], Direction::Both);
    serve(&router);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/routed/host.py");
    let mut host = Host(
        Command::new("ip")
            .args(["netns", "exec", &format!("{}-c", rig.name), "python3", script, "serve"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3"),
    );
    let mut ready = [0; 6];
    host.0.stdout.take().expect("a pipe").read_exact(&mut ready).expect("a host");
    // Returns what comes back for each of `count` datagrams.
    let ask = |to: &str, bytes: u32, ttl: u8, count: usize| {
        let said = rig.sh(&format!("ip netns exec $B python3 {script} ask {to} {bytes} {ttl} {count}"));
        let lines: Vec<_> = said.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{said}");
        assert!(lines.iter().all(|line| *line == lines[0]), "{said}: {:?}", router.counts());
        lines[0].clone()
    };
    // The answer has passed the router with 64, too.
    assert_eq!(ask("10.2.0.2", 200, 64, 50), "echo 63");
    assert_eq!(ask("fd02::2", 200, 64, 50), "echo 63");
    assert_eq!(ask("10.2.0.2", 1, 2, 5), "echo 63");
    assert_eq!(ask("10.2.0.2", 200, 1, 3), "11/0 from 10.1.0.1 mtu 0");
    assert_eq!(ask("fd02::2", 200, 1, 3), "3/0 from fd01::1 mtu 0");
    assert_eq!(ask("10.2.0.2", 1400, 64, 3), "3/4 from 10.1.0.1 mtu 1300");
    assert_eq!(ask("fd02::2", 1400, 64, 3), "2/0 from fd01::1 mtu 1300");
    assert_eq!(ask("203.0.113.1", 200, 64, 3), "3/0 from 10.1.0.1 mtu 0");
    assert_eq!(ask("2001:db8::1", 200, 64, 3), "1/0 from fd01::1 mtu 0");
    drop(host);

    // All is accounted for: what came in was forwarded, answered, or left to the kernel.
    router.ports().iter().for_each(|(_, port)| _ = port.close(Duration::from_secs(5)));
    let counts = router.counts();
    let dropped: u64 = counts.drops().map(|(_, count)| count).sum();
    assert_eq!(counts.given, counts.routed + counts.waiting + dropped, "{counts:?}");
    assert!(counts.dropped(Reason::Expired) >= 4 && counts.dropped(Reason::TooBig) >= 1, "{counts:?}");
    rig.shell("ip netns del $A-c");
}
