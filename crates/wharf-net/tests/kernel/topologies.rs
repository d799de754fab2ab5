//! The table of topologies. Each is a script over the rig's two wires, and what is drawn from it.

use crate::compare::{Question, compare};
use crate::rig::Rig;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wharf_net::{Mirror, Tables};

/// As many as the comparison is worth: a batch of `ip` answers about 20,000 a second. `QUESTIONS` in the
/// environment is another number.
fn questions_wanted() -> usize {
    std::env::var("QUESTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[derive(Default)]
struct Topology {
    name: &'static str,
    script: &'static str,
    /// Prefixes to draw destinations from, beside the wires' own and all addresses.
    prefixes: &'static [&'static str],
    /// Sources, marks, interfaces and ports to draw from, beside none.
    sources: &'static [&'static str],
    marks: &'static [u32],
    outputs: &'static [&'static str],
    /// The interface that forwarded packets come by, and their sources, of IPv4 and of IPv6.
    input: Option<(&'static str, [&'static str; 2])>,
    ports: &'static [u16],
    tos: &'static [u8],
    /// The ways that multipath routes give: interface, gateway.
    paths: &'static [(&'static str, &'static str)],
}

/// Numbers by xorshift, the same in every run.
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Draws one of several, or none.
    fn one<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.number() as usize % (of.len() + 1)).copied()
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.number()) << 64 | u128::from(self.number())
    }

    /// Draws an address of a prefix; its first and its last ones more often.
    fn address(&mut self, prefix: &str) -> IpAddr {
        let (base, len) = prefix.split_once('/').expect("a prefix");
        let len: u32 = len.parse().expect("a length");
        let host = match self.number() % 8 {
            0 => u128::from(self.number() % 4),
            1 => u128::MAX - u128::from(self.number() % 2),
            _ => self.wide(),
        };
        match base.parse().expect("an address") {
            IpAddr::V4(base) => {
                let mask = u32::MAX.checked_shr(len).unwrap_or(0);
                IpAddr::V4((base.to_bits() | host as u32 & mask).into())
            }
            IpAddr::V6(base) => {
                let mask = u128::MAX.checked_shr(len).unwrap_or(0);
                IpAddr::V6((base.to_bits() | host & mask).into())
            }
        }
    }

    fn question(&mut self, topology: &Topology) -> Question {
        const WIRES: [&str; 6] =
            ["10.1.0.0/24", "10.2.0.0/24", "fd01::/64", "fd02::/64", "0.0.0.0/0", "2000::/3"];
        let prefixes = if self.number().is_multiple_of(3) { &WIRES[..] } else { topology.prefixes };
        let prefix = prefixes.get(self.number() as usize % prefixes.len().max(1)).unwrap_or(&WIRES[4]);
        let to = loop {
            let to = self.address(prefix);
            // "This host" is no destination, and what the kernel says of others depends on sockets.
            if !to.is_unspecified()
                && !to.is_loopback()
                && !matches!(to, IpAddr::V4(to) if to.octets()[0] == 0)
            {
                break to;
            }
        };
        let input = topology.input.filter(|_| self.number().is_multiple_of(2));
        let source = self.one(topology.sources).map(|source| source.parse::<IpAddr>().expect("an address"));
        let from = source.filter(|source| source.is_ipv4() == to.is_ipv4());
        let forwarded =
            input.map(|(_, sources)| sources[usize::from(to.is_ipv6())].parse().expect("an address"));
        Question {
            to,
            from: forwarded.or(from),
            mark: self.one(topology.marks).unwrap_or(0),
            // With a source, `ip route get` takes IPv6's interface for a wish; for a bound socket it is none.
            output: self.one(topology.outputs).filter(|_| to.is_ipv4() || from.is_none()),
            input: input.map(|(interface, _)| interface),
            port: self.one(topology.ports).unwrap_or(0),
            tos: self.one(topology.tos).filter(|_| to.is_ipv4()).unwrap_or(0),
        }
    }
}

/// Turns the mirror until nothing changes for a while.
fn settle(mirror: &mut Mirror) -> Tables {
    let (end, mut quiet) = (Instant::now() + Duration::from_secs(10), 0);
    while quiet < 3 && Instant::now() < end {
        mirror.wait(Duration::from_millis(30), None).expect("an event");
        quiet = if mirror.turn().expect("a turn") || !mirror.is_current() { 0 } else { quiet + 1 };
    }
    mirror.tables()
}

/// Compares a mirror that has seen it all as events with the kernel, then one that has dumped it.
fn check(topology: &Topology) {
    let Some(rig) = Rig::new(topology.name, "true") else { return };
    let mut events = Mirror::open().expect("a mirror");
    let made = rig.shell(&format!("set -e\n{}", topology.script));
    let said = String::from_utf8_lossy(&made.stderr);
    if said.contains("Unknown device type") {
        return eprintln!("{}: skipped, this kernel has no such interfaces", topology.name);
    }
    assert!(made.status.success(), "{}: {said}", topology.name);
    let mut draw = Draw(0x46);
    let questions: Vec<_> = (0..questions_wanted()).map(|_| draw.question(topology)).collect();
    compare(&settle(&mut events), &rig, &questions, topology.paths);
    let mut dumped = Mirror::open().expect("a mirror");
    compare(&settle(&mut dumped), &rig, &questions, topology.paths);
}

macro_rules! topologies {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        #[test]
        #[ignore = "wants root"]
        fn $name() {
            check(&Topology { name: stringify!($name), $($field: $value,)* ..Topology::default() });
        }
    )*};
}

topologies! {
    plain {
        script: "ip -n $A route add default via 10.1.0.2
            ip -n $A route add default via fd01::2
            ip -n $A neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev a1 nud reachable
            ip -n $A neigh add fd01::2 lladdr 02:00:00:00:0b:01 dev a1 nud permanent
            ip -n $A neigh add 10.1.0.10 lladdr 02:00:00:00:00:10 dev a1 nud stale",
        prefixes: &["10.1.0.0/28", "fd01::/125", "224.0.0.0/4", "255.255.255.255/32", "fe80::/64"],
        outputs: &["a1", "a2"],
    }
    two_gateways {
        script: "ip -n $A route add default via 10.1.0.2 metric 10
            ip -n $A route add default via 10.2.0.2 metric 20
            ip -n $A route add 20.0.0.0/8 via 10.1.0.2
            ip -n $A route add 20.128.0.0/9 via 10.2.0.2 mtu 1400
            ip -n $A route add 20.128.0.0/10 via 10.1.0.2 src 10.2.0.1
            ip -n $A route add 20.128.0.0/24 dev a2
            ip -n $A route add default via fd01::2 metric 5
            ip -n $A route add default via fd02::2 metric 4 mtu 1300
            ip -n $A route add 2001:db8::/32 via fd02::2
            ip -n $A route replace 2001:db8::/33 via fd01::2 src fd02::1
            ip -n $A route replace 20.128.0.0/24 via 10.1.0.2
            ip -n $A route add 21.0.0.0/8 via 10.1.0.2
            ip -n $A route del 21.0.0.0/8
            ip -n $A route append 22.0.0.0/8 via 10.1.0.2
            ip -n $A route append 22.0.0.0/8 via 10.2.0.2
            ip -n $A route prepend 22.0.0.0/8 via 10.2.0.7",
        prefixes: &["20.0.0.0/8", "20.128.0.0/23", "21.0.0.0/8", "22.0.0.0/8", "2001:db8::/32", "fe80::/64"],
    }
    ecmp_by_weight {
        script: "ip -n $A route add default nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2 weight 1
            ip -n $A route add 2000::/3 nexthop via fe80::b:1 dev a1 weight 1 nexthop via fe80::b:2 dev a2 weight 4
            ip -n $A route add 40.0.0.0/8 via 10.1.0.7",
        prefixes: &["40.0.0.0/7", "2001:db8::/32"],
        sources: &["10.2.0.1"],
        paths: &[("a1", "10.1.0.2"), ("a2", "10.2.0.2"), ("a1", "fe80::b:1"), ("a2", "fe80::b:2"), ("a1", ""), ("a2", "")],
    }
    objects_and_groups {
        script: "ip -n $A nexthop add id 1 via 10.1.0.2 dev a1
            ip -n $A nexthop add id 2 via 10.2.0.2 dev a2
            ip -n $A nexthop add id 3 blackhole
            ip -n $A nexthop add id 4 via fe80::b:1 dev a1
            ip -n $A nexthop add id 5 via fe80::b:2 dev a2
            ip -n $A nexthop add id 6 dev a2
            ip -n $A nexthop add id 10 group 1,3/2,1
            ip -n $A nexthop add id 11 group 4/5,2
            ip -n $A nexthop add id 12 via 10.1.0.8 dev a1
            ip -n $A route add 50.0.0.0/8 nhid 1
            ip -n $A route add 51.0.0.0/8 nhid 10
            ip -n $A route add 52.0.0.0/8 nhid 3
            ip -n $A route add 53.0.0.0/8 nhid 6
            ip -n $A route add 54.0.0.0/8 nhid 12
            ip -n $A route add 2001:db8::/32 nhid 11
            ip -n $A route add 2001:db9::/32 nhid 4
            ip -n $A nexthop replace id 1 via 10.1.0.9 dev a1
            ip -n $A nexthop del id 12",
        prefixes: &["50.0.0.0/8", "51.0.0.0/8", "52.0.0.0/8", "53.0.0.0/8", "54.0.0.0/8", "2001:db8::/32", "2001:db9::/32"],
        paths: &[("a1", "10.1.0.9"), ("a2", "10.2.0.2"), ("a1", "fe80::b:1"), ("a2", "fe80::b:2")],
    }
    many_ways_of_an_interface {
        script: "ip -n $A route add 40.0.0.0/8 nexthop via 10.2.0.7 nexthop via 10.1.0.2 nexthop via 10.1.0.3
            ip -n $A nexthop add id 1 via 10.1.0.8 dev a1
            ip -n $A nexthop add id 2 via 10.2.0.8 dev a2
            ip -n $A nexthop add id 3 via 10.1.0.9 dev a1
            ip -n $A nexthop add id 10 group 1/2/3
            ip -n $A route add 41.0.0.0/8 nhid 10
            ip -n $A nexthop add id 4 via fe80::b:1 dev a1
            ip -n $A nexthop add id 5 via fe80::b:2 dev a2
            ip -n $A nexthop add id 11 group 4/5
            ip -n $A route add 2001:41::/32 nhid 11
            ip -n $A route add 2001:40::/32 nexthop via fd01::2 dev a1 nexthop via fd02::2 dev a2 nexthop via fd01::3 dev a1
            ip -n $A route add 2001:42::/32 dev a2 metric 1
            ip -n $A route add 2001:42::/32 via fd01::2 metric 2 pref low
            ip -n $A route add 2001:42::/32 via fd01::3 metric 3 pref high
            ip -n $A -6 route add unreachable 2001:43::/32 metric 5
            ip -n $A -6 route append 2001:43::/32 via fd01::2 metric 5
            ip -n $A -6 route append 2001:44::/32 via fd01::2 metric 5 pref low
            ip -n $A -6 route append unreachable 2001:44::/32 metric 5
            ip -n $A addr add 2001:9::9/64 dev lo nodad
            ip -n $A addr del fd02::1/64 dev a2",
        prefixes: &["40.0.0.0/8", "41.0.0.0/8", "2001:40::/32", "2001:41::/32", "2001:42::/31", "2001:44::/32", "ff05::/16", "ff0e::/16"],
        outputs: &["a1", "a2"],
        paths: &[("a2", "10.2.0.7"), ("a1", "10.1.0.2"), ("a1", "10.1.0.3"), ("a1", "10.1.0.8"), ("a2", "10.2.0.8"), ("a1", "10.1.0.9"),
            ("a1", "fe80::b:1"), ("a2", "fe80::b:2"), ("a1", "fd01::2"), ("a2", "fd02::2"), ("a1", "fd01::3")],
    }
    objects_that_drop {
        script: "ip netns exec $A sysctl -qw net.ipv4.nexthop_compat_mode=0
            ip -n $A route add default via 10.1.0.2
            ip -n $A -6 route add default via fd01::2
            ip -n $A nexthop add id 1 via 10.1.0.8 dev a1
            ip -n $A nexthop add id 2 blackhole
            ip -n $A nexthop add id 3 via fd01::8 dev a1
            ip -n $A -6 nexthop add id 4 blackhole
            ip -n $A -6 nexthop add id 5 blackhole
            ip -n $A nexthop add id 12 group 5
            ip -n $A route add 42.0.0.0/8 nhid 1
            ip -n $A route add 43.0.0.0/8 nhid 2
            ip -n $A -6 route add 2001:42::/32 nhid 3
            ip -n $A -6 route add 2001:43::/32 nhid 4
            ip -n $A -6 route add 2001:44::/32 nhid 5
            ip -n $A -6 route append 2001:44::/32 via fd01::9
            ip -n $A -6 route add 2001:45::/32 nhid 12
            ip -n $A nexthop replace id 1 blackhole
            ip -n $A nexthop replace id 2 via 10.1.0.8 dev a1
            ip -n $A -6 nexthop replace id 3 blackhole
            ip -n $A -6 nexthop replace id 4 via fd01::8 dev a1",
        prefixes: &["42.0.0.0/8", "43.0.0.0/8", "2001:42::/31", "2001:44::/31"],
        outputs: &["a1", "a2"],
    }
    own_gateway {
        script: "ip -n $A addr add 10.1.7.1/24 dev a1
            ip -n $A route add 44.0.0.0/8 via 10.1.0.1
            ip -n $A route add 45.0.0.0/8 via 10.1.7.1 mtu 1300",
        prefixes: &["44.0.0.0/8", "45.0.0.0/8"],
        sources: &["10.2.0.1"],
    }
    own_gateway_behind_a_rule {
        script: "ip -n $A addr add 10.1.7.1/32 dev a1
            ip -n $A rule add to 46.0.0.0/7 table 100
            ip -n $A route add 44.0.0.0/8 via 10.1.0.1
            ip -n $A route add 45.0.0.0/8 via 10.1.7.1
            ip -n $A route add 46.0.0.0/8 via 10.1.0.1 table 100
            ip -n $A route add 47.0.0.0/8 via 10.1.7.1 table 100",
        prefixes: &["44.0.0.0/8", "45.0.0.0/8", "46.0.0.0/7"],
    }
    source_of_a_route_gone {
        script: "ip -n $A addr add fd0a::5/64 dev a1 nodad
            ip -n $A -6 route add 2001:db8::/32 via fd01::2 src fd0a::5
            ip -n $A -6 route add 2001:db9::/32 via fd01::2 src fd02::1
            ip -n $A addr del fd0a::5/64 dev a1
            ip -n $A addr del fd02::1/64 dev a2",
        prefixes: &["2001:db8::/31"],
    }
    rules_by_source_and_mark {
        script: "ip -n $A route add default via 10.1.0.2
            ip -n $A route add default via 10.2.0.2 table 100
            ip -n $A route add 60.0.0.0/8 via 10.2.0.7 table 200
            ip -n $A route add unreachable 61.0.0.0/8 table 200
            ip -n $A route add 62.0.0.0/8 via 10.1.0.3 table 70000
            ip -n $A rule add from 10.2.0.1 table 100 pref 1000
            ip -n $A rule add fwmark 7 table 200 pref 900
            ip -n $A rule add fwmark 0x10/0x10 table 100 pref 950
            ip -n $A rule add to 62.0.0.0/9 table 70000 pref 800
            ip -n $A rule add to 63.0.0.0/8 prohibit pref 810
            ip -n $A rule add to 64.0.0.0/8 unreachable pref 811
            ip -n $A rule add to 65.0.0.0/8 blackhole pref 812
            ip -n $A rule add ipproto 17 dport 53 table 100 pref 820
            ip -n $A rule add not from 10.0.0.0/8 to 66.0.0.0/8 table 100 pref 830
            ip -n $A rule add to 67.0.0.0/8 goto 1000 pref 840
            ip -n $A rule add to 69.0.0.0/8 goto 5000 pref 821
            ip -n $A rule add to 69.0.0.0/9 blackhole pref 822
            ip -n $A rule add iif lo to 68.0.0.0/8 table 100 pref 850
            ip -n $A rule add table main suppress_prefixlength 0 pref 2000
            ip -n $A rule add oif a2 table 100 pref 2100
            ip -n $A -6 route add default via fd01::2
            ip -n $A -6 route add default via fd02::2 table 100
            ip -n $A -6 rule add from fd02::1 table 100 pref 1000
            ip -n $A -6 rule add fwmark 7 table 100 pref 900
            ip -n $A link property add dev a2 altname uplink
            ip -n $A -6 rule add oif uplink table 100 pref 850
            ip -n $A -6 rule add to 2001:db8::/32 prohibit pref 800
            ip -n $A -6 rule add to 2001:db9::/32 table main suppress_prefixlength 0 pref 810",
        prefixes: &["60.0.0.0/8", "61.0.0.0/8", "62.0.0.0/8", "63.0.0.0/8", "64.0.0.0/8", "65.0.0.0/8", "66.0.0.0/8", "67.0.0.0/8",
            "68.0.0.0/8", "69.0.0.0/8", "2001:db8::/31"],
        sources: &["10.1.0.1", "10.2.0.1", "fd01::1", "fd02::1"],
        marks: &[7, 0x10, 0x17, 9],
        outputs: &["a2"],
        ports: &[53, 80],
    }
    errors_and_throws {
        script: "ip -n $A route add default via 10.1.0.2
            ip -n $A route add blackhole 70.0.0.0/8
            ip -n $A route add unreachable 71.0.0.0/8
            ip -n $A route add prohibit 72.0.0.0/8
            ip -n $A route add throw 73.0.0.0/8
            ip -n $A route add 73.0.0.0/9 via 10.2.0.2
            ip -n $A route add throw 74.0.0.0/8 table 100
            ip -n $A route add 0.0.0.0/0 via 10.2.0.2 table 100
            ip -n $A rule add table 100 to 74.0.0.0/7 pref 500
            ip -n $A route add blackhole 75.0.0.0/8 metric 100
            ip -n $A route add 75.0.0.0/8 via 10.1.0.2 metric 50
            ip -n $A -6 route add default via fd01::2
            ip -n $A -6 route add blackhole 2001:70::/32
            ip -n $A -6 route add unreachable 2001:71::/32
            ip -n $A -6 route add prohibit 2001:72::/32
            ip -n $A -6 route add 2001:72::/33 via fd02::2",
        prefixes: &["70.0.0.0/8", "71.0.0.0/8", "72.0.0.0/8", "73.0.0.0/8", "74.0.0.0/8", "75.0.0.0/8", "2001:70::/32", "2001:71::/32",
            "2001:72::/32"],
    }
    gateway_of_another_subnet {
        script: "ip -n $A route add 172.31.1.1/32 dev a1
            ip -n $A route add default via 172.31.1.1
            ip -n $A route add 80.0.0.0/8 via 192.168.9.9 dev a2 onlink
            ip -n $A neigh add 172.31.1.1 lladdr 02:00:00:00:31:01 dev a1 nud permanent
            ip -n $A addr add 192.0.2.1/32 dev a2
            ip -n $A route add 81.0.0.0/8 via 10.2.0.2 src 192.0.2.1
            ip -n $A -6 route add fd99::1/128 dev a2
            ip -n $A -6 route add default via fd99::1",
        prefixes: &["80.0.0.0/8", "81.0.0.0/8", "172.31.1.0/24", "fd99::/120"],
    }
    link_local_gateways {
        script: "ip -n $A -6 route add default via fe80::b:1 dev a1
            ip -n $A -6 route add 2001:db8::/32 via fe80::b:2 dev a2 metric 1
            ip -n $A -6 route add 2001:db8::/32 via fe80::b:1 dev a1 metric 2
            ip -n $A -6 route append 2001:dba::/32 via fe80::b:1 dev a1
            ip -n $A -6 route append 2001:dba::/32 via fe80::b:2 dev a2
            ip -n $A -6 addr add 2001:aaaa::1/64 dev a2 nodad
            ip -n $A -6 addr add 2001:bbbb::1/64 dev a1 nodad preferred_lft 0
            ip -n $A -6 addr add 2001:cccc::1/64 dev a1 nodad
            ip -n $A -6 addr add 2002:102::1/64 dev a1 nodad",
        prefixes: &["2001:db8::/32", "2001:dba::/32", "fe80::/64", "ff02::/112", "ff05::/112", "2001:aaaa::/62", "2001:bbbb::/62", "2002::/16",
            "fc00::/7"],
        outputs: &["a1", "a2"],
        paths: &[("a1", "fe80::b:1"), ("a2", "fe80::b:2")],
    }
    ipv4_by_ipv6 {
        script: "ip -n $A route add default via inet6 fe80::b:1 dev a1
            ip -n $A route add 90.0.0.0/8 via inet6 fe80::b:2 dev a2
            ip -n $A route add 91.0.0.0/8 nexthop via inet6 fe80::b:2 dev a2 nexthop via 10.1.0.2",
        prefixes: &["90.0.0.0/8", "91.0.0.0/8"],
        paths: &[("a2", "fe80::b:2"), ("a1", "10.1.0.2")],
    }
    forwarded {
        script: "ip netns exec $A sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.a1.rp_filter=0
            ip -n $A route add default via 10.2.0.2
            ip -n $A route add 10.77.0.0/16 via 10.1.0.2
            ip -n $A route add unreachable 99.0.0.0/8
            ip -n $A route add 98.0.0.0/8 via 10.2.0.9 mtu 1300
            ip -n $A route add default via 10.2.0.5 table 100
            ip -n $A rule add iif a1 to 97.0.0.0/8 table 100
            ip -n $A -6 route add default via fd02::2
            ip -n $A -6 route add default via fd02::5 table 100
            ip -n $A -6 rule add iif a1 to 2001:db8::/32 table 100",
        prefixes: &["97.0.0.0/8", "98.0.0.0/8", "99.0.0.0/8", "2001:db8::/31", "10.77.0.0/16"],
        input: Some(("a1", ["10.1.0.77", "fd01::77"])),
    }
    many_addresses {
        script: "ip -n $A addr add 10.1.0.5/24 dev a1
            ip -n $A addr add 10.1.0.6/16 dev a1
            ip -n $A addr add 10.1.7.1/24 dev a1
            ip -n $A addr add 10.9.0.1 peer 10.9.0.2 dev a2
            ip -n $A addr add 169.254.1.1/16 dev a1 scope link
            ip -n $A addr add 198.51.100.1/32 dev lo
            ip -n $A route add default via 10.1.7.9
            ip -n $A route add 92.0.0.0/8 dev a2 scope link
            ip -n $A addr del 10.1.0.1/24 dev a1
            ip -n $A addr add fd01::5/64 dev a1 nodad
            ip -n $A addr add fd01:1::5/64 dev a1 nodad
            ip -n $A addr add fd03::5/64 dev lo nodad
            ip -n $A addr add 2001:10::1/64 dev a1 nodad
            ip -n $A addr add 2400::1/64 dev a1 nodad
            ip -n $A -6 route add default dev a1",
        prefixes: &["10.1.0.0/21", "10.9.0.0/29", "169.254.0.0/16", "198.51.100.0/30", "92.0.0.0/8", "fd01::/32", "fd03::/64", "2002::/16"],
    }
    links_down {
        script: "ip -n $A route add default nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A route add 93.0.0.0/8 via 10.2.0.2 metric 1
            ip -n $A route add 93.0.0.0/8 via 10.1.0.2 metric 2
            ip -n $A route add 94.0.0.0/8 via 10.2.0.2
            ip -n $A -6 route add default nexthop via fe80::b:1 dev a1 nexthop via fe80::b:2 dev a2
            ip -n $A -6 route add 2001:db8::/32 via fe80::b:2 dev a2
            ip -n $A link set a2 down
            ip -n $A link set a1 mtu 1400",
        prefixes: &["93.0.0.0/8", "94.0.0.0/8", "2001:db8::/32"],
    }
    link_down_and_up {
        script: "ip -n $A route add 93.0.0.0/8 via 10.2.0.2 metric 1
            ip -n $A route add 93.0.0.0/8 via 10.1.0.2 metric 2
            ip -n $A nexthop add id 1 via 10.2.0.2 dev a2
            ip -n $A route add 94.0.0.0/8 nhid 1
            ip -n $A route add default via 10.1.0.2
            ip -n $A link set a2 down
            ip -n $A link set a2 up
            ip -n $B link set b1 down",
        prefixes: &["93.0.0.0/8", "94.0.0.0/8", "2001:db8::/32"],
    }
    types_of_service {
        script: "ip -n $A route add default via 10.1.0.2
            ip -n $A route add 95.0.0.0/8 via 10.1.0.3
            ip -n $A route add 95.0.0.0/8 tos 0x10 via 10.2.0.2
            ip -n $A route add 95.0.0.0/9 tos 0x08 via 10.2.0.3
            ip -n $A route add 95.64.0.0/10 tos 0x28 via 10.2.0.4
            ip -n $A rule add to 95.192.0.0/10 tos 0x08 prohibit pref 700",
        prefixes: &["95.0.0.0/8", "95.64.0.0/10"],
        tos: &[0x10, 0x08, 0x28, 0x30],
    }
    odd_ones {
        script: "ip -n $A route add default via 10.1.0.2
            ip -n $A route add 100.64.0.0/10 via inet6 fe80::b:9 dev a2 onlink
            ip -n $A route add 101.0.0.0/8 via 10.2.0.2
            ip -n $A link set a2 group 7
            ip -n $A rule add to 101.0.0.0/9 table main suppress_ifgroup 7 pref 510
            ip -n $A rule add to 101.0.0.0/10 table 100 pref 520
            ip -n $A route add 102.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A rule add to 102.0.0.0/8 table main suppress_ifgroup 7 pref 511
            ip -n $A rule add to 102.0.0.0/8 table 100 pref 521
            ip -n $A route add throw 101.0.0.0/11 table 100
            ip -n $A route add default via 10.2.0.9 table 100
            ip -n $A nexthop add id 1 via fe80::b:1 dev a1
            ip -n $A nexthop add id 2 via 10.2.0.2 dev a2 onlink
            ip -n $A nexthop add id 10 group 1/2,5
            ip -n $A route add 103.0.0.0/8 nhid 10
            ip -n $A route add local 104.0.0.0/8 dev lo
            ip -n $A route add 105.0.0.0/8 dev a1 scope link src 10.2.0.1
            ip -n $A -6 addr add 2001:dead::1/64 dev a2 nodad preferred_lft 0
            ip -n $A -6 route add default via fe80::b:1 dev a1
            ip -n $A -6 route add 2001:db8::/32 via fe80::b:2 dev a2 src 2001:dead::1
            ip -n $A -6 route add 2001:db9::/32 via fe80::b:2 dev a2
            ip -n $A -6 route add default via fd02::2 table 100
            ip -n $A -6 route add throw 2001:73::/32 table 100
            ip -n $A -6 rule add to 2001:72::/31 table 100 pref 500
            ip -n $A -6 rule add to 2001:74::/32 blackhole pref 501
            ip -n $A -6 route add local 2001:75::/64 dev lo",
        prefixes: &["100.64.0.0/10", "101.0.0.0/8", "102.0.0.0/8", "103.0.0.0/8", "104.0.0.0/8", "105.0.0.0/8", "2001:dead::/64", "2001:db8::/31",
            "2001:72::/31", "2001:74::/31"],
        sources: &["10.2.0.1", "fd01::1", "2001:dead::1"],
        paths: &[("a1", "fe80::b:1"), ("a2", "10.2.0.2"), ("a1", "10.1.0.2")],
    }
    local_prefixes {
        script: "ip -n $A route add local 108.0.0.0/8 dev lo
            ip -n $A route add 108.1.0.0/16 via 10.1.0.2
            ip -n $A route add throw 108.2.0.0/16
            ip -n $A route add unreachable 108.3.0.0/16
            ip -n $A route add default via 10.2.0.2",
        prefixes: &["108.0.0.0/13", "108.1.0.0/16"],
    }
    local_prefixes_after_a_rule {
        script: "ip -n $A route add local 108.0.0.0/8 dev lo
            ip -n $A route add 108.1.0.0/16 via 10.1.0.2
            ip -n $A rule add to 99.0.0.0/8 table 100
            ip -n $A rule del to 99.0.0.0/8 table 100",
        prefixes: &["108.0.0.0/13"],
    }
    last_address_gone {
        script: "ip -n $A route add default nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A route add 106.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A addr del 10.2.0.1/24 dev a2",
        prefixes: &["106.0.0.0/8"],
        paths: &[("a1", "10.1.0.2"), ("a2", "10.2.0.2")],
    }
    last_address_gone_and_back {
        script: "ip -n $A route add default nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A addr del 10.2.0.1/24 dev a2
            ip -n $A addr add 10.2.0.5/24 dev a2
            ip -n $A route add 107.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2
            ip -n $A link set a2 down
            ip -n $A link set a2 up",
        prefixes: &["107.0.0.0/8"],
        paths: &[("a1", "10.1.0.2"), ("a2", "10.2.0.2"), ("a1", ""), ("a2", "")],
    }
    ipv6_gateway_that_failed {
        script: "ip -n $A route add 2000::/3 nexthop via fe80::b:1 dev a1 weight 1 nexthop via fe80::b:2 dev a2 weight 1
            ip -n $A route add 2001:db9::/32 nexthop via fe80::b:9 dev a1 nexthop via fe80::b:3 dev a2
            ip -n $A neigh replace fe80::b:2 dev a2 nud failed
            ip -n $A neigh replace fe80::b:9 lladdr 02:00:00:00:00:09 dev a1 nud reachable
            ip -n $A neigh replace fe80::b:9 dev a1 nud failed",
        prefixes: &["2001:db8::/32", "2001:db9::/32"],
    }
    ipv6_forwarding_of_an_interface {
        script: "ip netns exec $A sysctl -qw net.ipv6.conf.a2.forwarding=1
            ip -n $A route add 2001:db8::/32 nexthop via fe80::b:1 dev a1 nexthop via fe80::b:2 dev a2
            ip -n $A route add 2001:db9::/32 via fe80::b:2 dev a2
            ip -n $A route add 2000::/3 via fe80::b:1 dev a1
            ip -n $A neigh replace fe80::b:2 dev a2 nud failed",
        prefixes: &["2001:db8::/31"],
    }
    ipv6_forwarding_of_all {
        script: "ip netns exec $A sysctl -qw net.ipv6.conf.all.forwarding=1
            ip netns exec $A sysctl -qw net.ipv6.conf.a2.forwarding=0
            ip -n $A route add 2001:db9::/32 via fe80::b:2 dev a2
            ip -n $A route add 2000::/3 via fe80::b:1 dev a1
            ip -n $A neigh replace fe80::b:2 dev a2 nud failed",
        prefixes: &["2001:db8::/31"],
    }
    macvlan {
        script: "ip -n $A link add mv link a1 type macvlan mode bridge
            ip -n $A addr add 10.5.0.1/24 dev mv
            ip -n $A link set mv up
            ip -n $A route add default via 10.5.0.2
            ip -n $A neigh add 10.5.0.2 lladdr 02:00:00:00:05:02 dev mv nud permanent",
        prefixes: &["10.5.0.0/24", "11.0.0.0/8"],
    }
    bridge {
        script: "ip -n $A link add br0 type bridge
            ip -n $A link set a1 master br0
            ip -n $A addr flush dev a1
            ip -n $A addr add 10.1.0.1/24 dev br0
            ip -n $A link set br0 up
            ip -n $A route add default via 10.1.0.2
            ip -n $A neigh add 10.1.0.2 lladdr 02:00:00:00:0b:01 dev br0 nud permanent",
        prefixes: &["10.1.0.0/24", "11.0.0.0/8"],
    }
    vxlan {
        script: "ip -n $A link add vx type vxlan id 5 dstport 4789 remote 10.1.0.2 local 10.1.0.1
            ip -n $A addr add 10.6.0.1/24 dev vx
            ip -n $A link set vx up
            ip -n $A route add 96.0.0.0/8 via 10.6.0.2
            ip -n $A neigh add 10.6.0.2 lladdr 02:00:00:00:06:02 dev vx nud permanent",
        prefixes: &["10.6.0.0/24", "96.0.0.0/8"],
    }
    vlan_and_qinq {
        script: "ip -n $A link add v5 link a1 type vlan id 5
            ip -n $A link add q7 link v5 type vlan id 7
            ip -n $A addr add 10.7.0.1/24 dev v5
            ip -n $A addr add 10.8.0.1/24 dev q7
            ip -n $A link set v5 up
            ip -n $A link set q7 up mtu 1492
            ip -n $A route add 97.0.0.0/8 via 10.7.0.2
            ip -n $A route add 98.0.0.0/8 via 10.8.0.2",
        prefixes: &["10.7.0.0/24", "10.8.0.0/24", "97.0.0.0/8", "98.0.0.0/8"],
    }
    bond {
        script: "ip -n $A link add bo type bond mode active-backup
            ip -n $A link set a1 down
            ip -n $A link set a2 down
            ip -n $A link set a1 master bo
            ip -n $A link set a2 master bo
            ip -n $A addr add 10.5.0.1/24 dev bo
            ip -n $A link set bo up
            ip -n $A route add default via 10.5.0.2",
        prefixes: &["10.5.0.0/24", "11.0.0.0/8"],
    }
    vrf {
        script: "ip -n $A link add red type vrf table 10
            ip -n $A link set red up
            ip -n $A link set a2 master red
            ip -n $A route add default via 10.1.0.2
            ip -n $A route add default via 10.2.0.2 table 10",
        prefixes: &["11.0.0.0/8"],
        outputs: &["red", "a2"],
    }
    vrf_and_ways_out {
        script: "ip -n $A link add red type vrf table 10
            ip -n $A link set red up
            ip -n $A addr add 10.9.0.1/32 dev red
            ip -n $A addr add fd09::1/128 dev red nodad
            ip -n $A link set a2 master red
            ip -n $A addr add fd02::1/64 dev a2 nodad
            ip -n $A addr add 2001:2::1/64 dev a2 nodad
            ip -n $A addr add 2001:9::1/128 dev red nodad
            ip -n $A route add default via 10.1.0.2
            ip -n $A -6 route add default via fd01::2
            ip -n $A route add unreachable default table 10 metric 9999
            ip -n $A -6 route add unreachable default table 10 metric 9999
            ip -n $A route add 11.0.0.0/8 via 10.2.0.2 table 10
            ip -n $A route add 12.0.0.0/8 via 10.1.0.2 dev a1 table 10
            ip -n $A route add 13.0.0.0/8 via 10.1.0.2 dev a1 src 10.1.0.1 table 10
            ip -n $A -6 route add 2001:11::/32 via fd02::2 dev a2 table 10
            ip -n $A -6 route add 2001:12::/32 via fd01::2 dev a1 table 10
            ip -n $A -6 route add 2001:13::/32 via fd01::2 dev a1 src fd01::1 table 10",
        prefixes: &["11.0.0.0/8", "12.0.0.0/7", "2001:11::/32", "2001:12::/31", "2001:2::/64", "2001:9::/64", "fd09::/64", "ff05::/16"],
        outputs: &["red"],
    }
    tunnels {
        script: "ip -n $A link add g1 type gre local 10.1.0.1 remote 10.1.0.2 key 9
            ip -n $A link add t1 type ipip local 10.2.0.1 remote 10.2.0.2
            ip -n $A addr add 10.5.0.1/24 dev g1
            ip -n $A addr add 10.6.0.1/24 dev t1
            ip -n $A link set g1 up
            ip -n $A link set t1 up
            ip -n $A route add 97.0.0.0/8 dev g1
            ip -n $A route add 98.0.0.0/8 via 10.6.0.2",
        prefixes: &["97.0.0.0/8", "98.0.0.0/8", "10.5.0.0/24", "10.6.0.0/24"],
    }
}
