//! Changes at random under traffic: each packet arrives, or is counted; a while after each change packets go the new way alone, to the
//! MAC that the neighbour has, from the address that the route names.
//!
//! `WHARF_ROUTED_SECONDS=600 WHARF_ROUTED_PPS=100000` is the run that the crate is held to: 50 ms after each change. By itself it is short,
//! and waits until a packet has gone the new way, whatever else the machine does. `WHARF_ROUTED_SEED` repeats the changes of a run.

use crate::rig::{Rig, eventually};
use crate::router;
use crate::sending::SOON;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wharf::queue::Rest;
use wharf::{Burst, Direction, Packet, Port};
use wharf_route::{RouteSender, Router};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4000);
const TO: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9003);
/// Packets that are sent without a pause.
const AT_ONCE: u64 = 32;
const FAULTS_TOLD: usize = 8;

fn from_environment(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// How a packet arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    port: usize,
    mac: [u8; 6],
    source: [u8; 4],
    vlan: Option<u16>,
}

impl Way {
    /// Reads a frame that arrived at `port`: its number, and its way. `None` if it is none of ours.
    fn of(port: usize, frame: &[u8]) -> Option<(u64, Self)> {
        let (vlan, ip) = match frame.get(12..14)? {
            [0x08, 0x00] => (None, frame.get(14..)?),
            [0x81, 0x00] => (Some(u16::from_be_bytes([frame[14], frame[15]]) & 0xfff), frame.get(18..)?),
            _ => return None,
        };
        let is_ours = ip.get(9) == Some(&17) && ip.get(22..24)? == TO.port().to_be_bytes();
        let number = u64::from_be_bytes(ip.get(28..36)?.try_into().ok()?);
        let way = Self { port, mac: frame[..6].try_into().ok()?, source: ip[12..16].try_into().ok()?, vlan };
        is_ours.then_some((number, way))
    }
}

/// What has arrived, and the way that packets of these numbers have to go.
#[derive(Debug)]
struct Arrivals {
    way: Way,
    from: u64,
    until: u64,
    seen: Vec<u64>,
    arrived: u64,
    checked: u64,
    /// The last one that was new.
    newest: Option<(u64, Way)>,
    faults: Vec<String>,
}

impl Arrivals {
    fn see(&mut self, port: usize, frame: &Packet) {
        let Some((number, way)) = Way::of(port, frame.head()) else { return };
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if self.seen.len() <= at {
            self.seen.resize(at + 1, 0);
        }
        let is_new = self.seen[at] & bit == 0;
        self.seen[at] |= bit;
        self.arrived += u64::from(is_new);
        self.newest = if is_new { Some((number, way)) } else { self.newest };
        let is_held_to = (self.from..self.until).contains(&number);
        self.checked += u64::from(is_held_to);
        if self.faults.len() < FAULTS_TOLD && (!is_new || is_held_to && way != self.way) {
            self.faults.push(format!("{number}: {way:?}, not {:?}; twice: {}", self.way, !is_new));
        }
    }
}

/// Sends packets with numbers until it is told to stop, and says how many it has sent.
fn traffic(mut sender: RouteSender, packets_per_second: u64, sent: &AtomicU64, is_over: &AtomicBool) {
    let began = Instant::now();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let due = began.elapsed().as_nanos() as u64 * packets_per_second / 1_000_000_000;
        if number >= due {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        for _ in 0..AT_ONCE.min(due - number) {
            let mut packet = sender.packet(8, SOON).expect("memory");
            packet.bytes_mut().copy_from_slice(&number.to_be_bytes());
            sender.send_datagram(packet, ANY, TO, Duration::ZERO).expect("a port");
            number += 1;
        }
        sender.flush_or_drop(Duration::from_millis(5));
        sent.store(number, Ordering::Release);
    }
}

/// Opens the other ends, in their namespace, and has all that arrives seen.
fn other_ends(namespace: &str, arrivals: &Arc<Mutex<Arrivals>>) -> Vec<Port> {
    let (namespace, arrivals) =
        (File::open(format!("/run/netns/{namespace}")).expect("a namespace"), arrivals.clone());
    let open = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        let open = |at: usize| {
            let spec = format!("packet:b{},buffer=64m", at + 1);
            let port = Port::open(&spec, Direction::Receive).expect("a port");
            let arrivals = arrivals.clone();
            let handler = move |burst: &mut Burst| {
                let mut arrivals = arrivals.lock().expect("no panic");
                while let Some(frame) = burst.pop() {
                    arrivals.see(at, &frame);
                }
                Rest::Free
            };
            port.on_receive(handler).expect("a handler");
            port
        };
        vec![open(0), open(1)]
    };
    thread::spawn(open).join().expect("the other ends")
}

/// The state of the topology, as the changes have left it.
struct Topology {
    /// The port of the route, from 0.
    port: usize,
    /// The last bytes of the neighbours' MACs, and of this host's addresses.
    macs: [u8; 2],
    addresses: [u8; 2],
    vlan: Option<u16>,
}

impl Topology {
    fn way(&self) -> Way {
        let (port, vlan) = (self.port, self.vlan);
        let net = if vlan.is_some() { 7 } else { port as u8 + 1 };
        let host = if vlan.is_some() { 1 } else { self.addresses[port] };
        Way { port, mac: [2, 0, 0, 0, 0x0b, self.macs[port]], source: [10, net, 0, host], vlan }
    }

    /// Returns a script that makes a change, and notes it. `random` says which.
    fn change(&mut self, random: u64, has_vlans: bool) -> String {
        let (kind, at, byte) = (random % 8, (random >> 8) as usize % 2, (random >> 16) as u8);
        let (n, mac) = (at + 1, self.macs[at]);
        let to_port = |at: usize| format!("ip -n $A route replace 192.0.2.1 via 10.{}.0.2", at + 1);
        let route = match self.vlan {
            Some(_) => "ip -n $A route replace 192.0.2.1 via 10.7.0.2".to_owned(),
            None => to_port(self.port),
        };
        match kind {
            0 | 1 => {
                (self.port, self.vlan) = (at, None);
                to_port(at)
            }
            2 => format!("ip -n $A neigh flush dev a{n}"),
            // The VLAN has the MAC that the interface had as it was made.
            3 if self.vlan.is_none() => {
                self.macs[at] = byte;
                format!(
                    "ip -n $B link set b{n} address 02:00:00:00:0b:{byte:02x}; ip -n $A neigh del 10.{n}.0.2 dev a{n} || true"
                )
            }
            4 if self.vlan.is_none() => {
                format!("ip -n $A link set a{n} down; ip -n $A link set a{n} up; {route}")
            }
            5 => {
                let new = 10 + byte % 200;
                let old = std::mem::replace(&mut self.addresses[at], new);
                if old == new {
                    return route;
                }
                format!(
                    "ip -n $A addr del 10.{n}.0.{old}/24 dev a{n}; ip -n $A addr add 10.{n}.0.{new}/24 dev a{n}; {route}"
                )
            }
            6 if has_vlans => {
                let id = 2 + u16::from(byte);
                (self.port, self.vlan) = (at, Some(id));
                format!(
                    "for e in $A:a:1 $B:b:2; do s=${{e%%:*}}; e=${{e#*:}}
                    ip -n $s link del v 2>/dev/null || true; ip -n $s link add v link ${{e%:*}}{n} type vlan id {id}
                    ip -n $s link set v up; ip -n $s addr add 10.7.0.${{e#*:}}/24 dev v; done
                    ip -n $A route replace 192.0.2.1 via 10.7.0.2 # {mac:02x}"
                )
            }
            _ => format!("ip -n $A neigh flush dev a{n}; {route}"),
        }
    }
}

/// Packets that the kernel took and did not put on a wire, as its interfaces count: while a link goes down.
fn dropped_by_the_kernel(rig: &Rig) -> u64 {
    let all = rig.sh("ip netns exec $A cat /proc/net/dev");
    let dropped = |line: &str| line.split_whitespace().nth(12)?.parse::<u64>().ok();
    all.lines().filter(|line| line.trim_start().starts_with('a')).filter_map(dropped).sum()
}

/// Returns the packets that left the ports and are in none of the counts, of which `arrived` is one, and those that the kernel dropped.
fn missing(rig: &Rig, router: &Router, ends: &[Port], arrived: u64) -> (u64, u64) {
    let ports = router.ports().iter().map(|(_, port)| port.snapshot());
    let left: u64 = ports.map(|port| port.accepted - port.failed - port.returned).sum();
    let unseen: u64 = ends.iter().flat_map(|end| end.snapshot().drops.into_values()).sum();
    (left.saturating_sub(arrived + unseen), dropped_by_the_kernel(rig))
}

/// Checks that each of `sent` packets is somewhere.
fn account(rig: &Rig, router: &Router, ends: &[Port], arrivals: &Arrivals, sent: u64) {
    let counts = router.counts();
    let dropped: u64 = counts.drops().map(|(_, count)| count).sum();
    assert_eq!((counts.given, counts.waiting), (sent, 0), "{counts:?}");
    assert_eq!(counts.given, counts.routed + dropped, "{counts:?}");
    let ports: Vec<_> = router.ports().iter().map(|(_, port)| port.snapshot()).collect();
    let accepted: u64 = ports.iter().map(|port| port.accepted).sum();
    assert_eq!(accepted, counts.routed, "{counts:?} {ports:?}");
    let (lost, by_kernel) = missing(rig, router, ends, arrivals.arrived);
    println!(
        "{sent} sent, {} arrived ({} held to their way), {dropped} dropped: {:?}; failed in a port: {:?}; not seen: {:?}; {lost} of {by_kernel} lost in the kernel",
        arrivals.arrived,
        arrivals.checked,
        counts.drops().collect::<Vec<_>>(),
        ports.iter().map(|port| &port.drops).collect::<Vec<_>>(),
        ends.iter().map(|end| end.snapshot().drops).collect::<Vec<_>>()
    );
    assert!(lost <= by_kernel, "{lost} packets are nowhere");
}

/// Makes a change, and holds packets to `way` once it is followed: after the time `within`, or once a packet has come that way.
fn follow(
    rig: &Rig, script: &str, way: Way, arrivals: &Mutex<Arrivals>, sent: &AtomicU64, within: Option<Duration>,
) {
    // A packet that waits for its neighbour goes the way that there is then.
    arrivals.lock().expect("no panic").until = 0;
    rig.sh(script);
    let next = sent.load(Ordering::Acquire);
    let newest = || arrivals.lock().expect("no panic").newest;
    match within {
        Some(within) => thread::sleep(within),
        None => {
            _ = eventually(script, || newest().is_some_and(|(number, its)| number >= next && its == way));
        }
    }
    let mut now = arrivals.lock().expect("no panic");
    // Packets that are being sent just now may have been resolved before.
    (now.way, now.from, now.until) = (way, sent.load(Ordering::Acquire) + AT_ONCE, u64::MAX);
    assert!(now.faults.is_empty(), "before {script}: {:?}", now.faults);
}

#[test]
#[ignore = "root"]
fn whatever_changes_packets_arrive_the_new_way_or_are_counted() {
    let seconds = from_environment("WHARF_ROUTED_SECONDS");
    let rate = from_environment("WHARF_ROUTED_PPS").unwrap_or(5000);
    let seed =
        from_environment("WHARF_ROUTED_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | rate);
    let within = seconds.map(|_| Duration::from_millis(50));
    let rig = Rig::new(
        "random",
        "
        ip -n $A route add 192.0.2.1 via 10.1.0.2
        for i in 1 2; do ip -n $A neigh del 10.$i.0.2 dev a$i; done",
    )
    .expect("namespaces");
    println!("seed {seed}");
    let has_vlans =
        rig.shell("ip -n $A link add v link a1 type vlan id 2; ip -n $A link del v").status.success();
    let mut topology = Topology { port: 0, macs: [1, 2], addresses: [1, 1], vlan: None };
    let arrivals = Arrivals {
        way: topology.way(),
        from: 0,
        until: 0,
        seen: vec![],
        arrived: 0,
        checked: 0,
        newest: None,
        faults: vec![],
    };
    let arrivals = Arc::new(Mutex::new(arrivals));
    let ends = other_ends(&format!("{}-b", rig.name), &arrivals);
    let router = router(&["a1", "a2"], Direction::Send);
    let (sent, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sender = router.sender("test").expect("a sender");
    let sending = thread::spawn({
        let (sent, is_over) = (sent.clone(), is_over.clone());
        move || traffic(sender, rate, &sent, &is_over)
    });
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(6));
    let mut changes = 0;
    let mut random = seed;
    while Instant::now() < end {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let script = topology.change(random >> 24, has_vlans);
        follow(&rig, &script, topology.way(), &arrivals, &sent, within);
        changes += 1;
        thread::sleep(Duration::from_millis(random >> 58));
    }
    is_over.store(true, Ordering::Relaxed);
    sending.join().expect("the sender");
    router.end();
    router.ports().iter().for_each(|(_, port)| _ = port.close(SOON));
    eventually("all have arrived or are counted", || {
        let (lost, by_kernel) = missing(&rig, &router, &ends, arrivals.lock().expect("no panic").arrived);
        lost <= by_kernel
    });
    ends.iter().for_each(|end| _ = end.close(SOON));
    println!("seed {seed}: {changes} changes, VLANs: {has_vlans}");
    let arrivals = arrivals.lock().expect("no panic");
    assert!(arrivals.faults.is_empty(), "seed {seed}: {:?}", arrivals.faults);
    assert!(arrivals.checked > 0 && changes > 1);
    account(&rig, &router, &ends, &arrivals, sent.load(Ordering::Acquire));
}
