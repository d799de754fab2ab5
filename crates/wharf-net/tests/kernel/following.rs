//! A mirror follows the kernel: changes at random, lost events, neighbours that are asked for.

use crate::compare::{Question, kernels, ours};
use crate::rig::{Rig, eventually};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use wharf_net::{Asker, Cache, Mirror, Neighbour, Query, Tables};

fn question(to: &str) -> Question {
    let to = to.parse().expect("an address");
    Question { to, from: None, mark: 0, output: None, input: None, port: 0, tos: 0 }
}

/// Turns the mirror once it is told something, and again while there is more.
fn turn(mirror: &mut Mirror) {
    mirror.wait(Duration::from_millis(50), None).expect("an event");
    while mirror.turn().expect("a turn") {}
}

#[test]
#[ignore = "wants root"]
fn changes_are_followed() {
    let Some(rig) = Rig::new("changes", "ip -n $A route add default via 10.1.0.2") else { return };
    let watch = Mirror::open().expect("a mirror").spawn().expect("a thread");
    let (tables, mut longest) = (watch.tables(), Duration::ZERO);
    let changes = [
        "route replace default via 10.2.0.2",
        "route add 20.0.0.0/8 via 10.1.0.7 mtu 1300",
        "neigh replace 10.2.0.2 lladdr 02:00:00:00:00:77 dev a2 nud permanent",
        "neigh flush dev a2 nud all",
        "link set a1 mtu 1400",
        "addr add 10.2.0.9/24 dev a2",
        "addr del 10.2.0.1/24 dev a2",
        "addr add 10.2.0.9/24 dev a2",
        "link set a2 down",
        "link set a2 up",
        "route replace default via 10.2.0.2",
        "link set a1 name x1",
        "rule add to 20.0.0.0/9 table 100 pref 100",
        "route add default via 10.2.0.2 table 100",
        "rule del pref 100",
        "link del x1",
        "route flush table 100",
    ];
    let questions: Vec<_> =
        ["20.1.1.1", "8.8.8.8", "10.1.0.2", "10.2.0.2", "10.2.0.9", "fd01::2", "fd02::2", "2001::1"]
            .map(question)
            .into();
    for change in changes {
        rig.sh(&format!("ip -n $A {change}"));
        let theirs = kernels(&rig, &questions);
        let took =
            eventually(change, || theirs == questions.iter().map(|it| ours(&tables, it)).collect::<Vec<_>>());
        longest = longest.max(took);
    }
    eprintln!("the slowest change was seen {longest:?} after the kernel's answer");
}

#[test]
#[ignore = "wants root"]
fn lost_events_are_dumped_anew() {
    const ROUTES: usize = 250_000;
    let Some(rig) = Rig::new("lost", "true") else { return };
    let mut mirror = Mirror::open().expect("a mirror");
    let tables = mirror.tables();
    let before = tables.prefixes().0;
    let line =
        |at: usize| format!("route add 2{}.{}.{}.0/24 via 10.1.0.2\n", at >> 16, at >> 8 & 255, at & 255);
    rig.batch(&(0..ROUTES).map(line).collect::<String>());
    eventually("all routes", || {
        turn(&mut mirror);
        tables.prefixes().0 == before + ROUTES
    });
    assert!(tables.overruns() > 0, "the socket's memory is enough for {ROUTES} events: try more");
}

#[test]
#[ignore = "wants root"]
fn events_that_wait_at_an_overrun_are_older_than_the_dump() {
    const ROUTES: usize = 120_000;
    let Some(rig) = Rig::new("older", "true") else { return };
    let mut mirror = Mirror::open().expect("a mirror");
    let (tables, before) = (mirror.tables(), mirror.tables().prefixes().0);
    let lines = |what: &str| -> String {
        let line = |at: usize| {
            format!("route {what} 2{}.{}.{}.0/24 via 10.1.0.2\n", at >> 16, at >> 8 & 255, at & 255)
        };
        (0..ROUTES).map(line).collect()
    };
    rig.batch(&lines("add"));
    rig.batch(&lines("del"));
    for (change, count) in [("true", before), ("ip -n $A route add 30.0.0.0/8 via 10.1.0.2", before + 1)] {
        rig.sh(change);
        eventually(change, || {
            turn(&mut mirror);
            mirror.is_current()
        });
        assert_eq!(tables.prefixes().0, count, "{change}");
    }
    assert!(tables.overruns() > 0, "the socket's memory is enough for {ROUTES} events: try more");
}

/// Ends a thread, whatever happens.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The kernel sends the event of an interface before it changes the next hops by it.
#[test]
#[ignore = "wants root"]
fn next_hops_come_again_with_their_interface() {
    let script = "ip -n $A route add 30.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2";
    let Some(rig) = Rig::new("legs", script) else { return };
    // What the kernel does for each of them comes between the event and the change of the next hops.
    rig.batch(
        &(0..2000)
            .map(|at| format!("addr add 172.16.{}.{}/32 dev a2\n", at / 200, at % 200 + 1))
            .collect::<String>(),
    );
    let mut mirror = Mirror::open().expect("a mirror");
    let tables = mirror.tables();
    let a2 = tables.interface_index("a2").expect("a2");
    let [is_current, is_over] = [&AtomicBool::new(false), &AtomicBool::new(false)];
    let by_a2 = || {
        let to = |flow| Query::to([30, 1, 1, 1].into()).flow(flow);
        (1..64).filter(|flow| tables.lookup(&to(*flow)).is_ok_and(|hop| hop.interface == a2)).count()
    };
    let lo_mtu = || tables.lookup(&Query::to([127, 0, 0, 1].into())).expect("lo").mtu_bytes;
    let follows = move || {
        while !is_over.load(SeqCst) {
            turn(&mut mirror);
            is_current.store(mirror.is_current(), SeqCst);
        }
    };
    std::thread::scope(|scope| {
        let _over = Over(is_over);
        scope.spawn(follows);
        for at in 0..10 {
            let (change, is_used) = [("link set a2 down", false), ("link set a2 up", true)][at % 2];
            rig.sh(&format!("ip -n $A {change}"));
            eventually(change, || (by_a2() > 0) == is_used);
            // Behind this event the mirror has seen the dead next hop.
            let mtu = 60_000 + at as u32;
            rig.sh(&format!("ip -n $A link set lo mtu {mtu}"));
            eventually("lo", || lo_mtu() == mtu && is_current.load(SeqCst));
        }
    });
}

fn lookup(tables: &Tables, to: &str) -> Neighbour {
    let to: IpAddr = to.parse().expect("an address");
    tables.lookup(&Query::to(to)).expect("a hop").neighbour
}

#[test]
#[ignore = "wants root"]
fn neighbours_are_asked_for_and_confirmed() {
    let Some(rig) = Rig::new("asked", "ip -n $A neigh flush dev a1 nud permanent") else { return };
    let watch = Mirror::open().expect("a mirror").spawn().expect("a thread");
    let (tables, mut asker) = (watch.tables(), Asker::open().expect("an asker"));
    let mut ask = |to: &str| {
        let to: IpAddr = to.parse().expect("an address");
        let hop = tables.lookup(&Query::to(to)).expect("a hop");
        asker.ask(&hop, to).expect("asked")
    };
    for to in ["10.1.0.2", "fd01::2"] {
        assert_eq!(lookup(&tables, to), Neighbour::Unknown);
        assert!(ask(to));
        assert!(!ask(to), "once a second");
        let mac = [2, 0, 0, 0, 0x0b, 1];
        eventually(to, || lookup(&tables, to).mac() == Some(mac));
        rig.sh(&format!("ip -n $A neigh replace {to} dev a1 lladdr 02:00:00:00:0b:01 nud stale"));
        eventually("stale", || lookup(&tables, to) == Neighbour::Known { mac, is_stale: true });
        eventually("confirmed", || {
            ask(to);
            lookup(&tables, to) == Neighbour::Known { mac, is_stale: false }
        });
    }
    ask("10.1.0.99");
    eventually("no answer", || lookup(&tables, "10.1.0.99") == Neighbour::Failed);
}

#[test]
#[ignore = "wants root"]
fn a_cache_forgets_with_the_tables() {
    // Two prefixes by one router, each within a wider one by another.
    let script = "ip -n $A route add default via 10.1.0.2
        ip -n $A route add 30.0.0.0/8 via 10.2.0.2
        for i in a b; do
          ip -n $A route add 2${i}00::/16 via fe80::b:1 dev a1 src fd01::1
          ip -n $A route add 2${i}00::/8 via fd02::$i dev a2
        done";
    let Some(rig) = Rig::new("cache", script) else { return };
    let mut mirror = Mirror::open().expect("a mirror");
    let tables = mirror.tables();
    let mut cache = Cache::new(tables.clone());
    let queries: Vec<_> = (0..5000_u32)
        .map(|at| {
            let to: IpAddr = match at % 3 {
                0 => std::net::Ipv6Addr::new([0x2a00, 0x2b00][at as usize % 2], 0, 0, 0, 0, 0, 0, 9).into(),
                _ => std::net::Ipv4Addr::from(((at % 7 * 10 + 10) << 24) + at % 600).into(),
            };
            let to = Query::to(to);
            let to = if at % 11 == 0 { to.from([10, 2, 0, 1].into()) } else { to };
            let to = if at % 1000 < 300 { to.mark(7) } else { to };
            if at % 13 == 0 { to.ports(17, 1, at as u16) } else { to }
        })
        .collect();
    let mut same = || {
        for query in &queries {
            assert_eq!(cache.lookup(query).cloned(), tables.lookup(query), "{query:?}");
        }
        cache.lookup_all(&queries, |query, hop| assert_eq!(hop.cloned(), tables.lookup(query), "{query:?}"));
    };
    same();
    for change in [
        "route replace default via 10.2.0.2",
        "neigh replace 10.2.0.2 dev a2 lladdr 02:00:00:00:00:55 nud permanent",
        "rule add fwmark 7 table 100 pref 100",
        "route add default via 10.1.0.9 table 100",
        "rule add table main suppress_prefixlength 0 pref 90",
        "rule add goto 200 pref 80",
        "rule add table 100 pref 200",
        "rule add to 40.0.0.0/8 prohibit",
        "neigh replace fe80::b:1 dev a1 nud failed",
        "link set a2 down",
    ] {
        let before = mirror.tables().generation();
        rig.sh(&format!("ip -n $A {change}"));
        eventually(change, || {
            turn(&mut mirror);
            mirror.tables().generation() != before
        });
        same();
    }
}

#[test]
#[ignore = "wants root"]
fn the_mtu_of_a_path_is_followed() {
    let script = "ip netns exec $B sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
        ip -n $A route add 50.0.0.0/8 via 10.1.0.2
        ip -n $B route add 50.0.0.0/8 via 10.2.0.1 mtu 1300
        ip -n $A route add 2001:db8::/32 via fd01::2
        ip -n $B route add 2001:db8::/32 via fd02::1 mtu 1300
        ip -n $B neigh add fd02::1 lladdr 02:00:00:00:0a:02 dev b2";
    let Some(_rig) = Rig::new("path", script) else { return };
    let watch = Mirror::open().expect("a mirror").spawn().expect("a thread");
    let tables = watch.tables();
    let mtu = |to: &str| {
        let to: IpAddr = to.parse().expect("an address");
        tables.lookup(&Query::to(to)).expect("a hop").mtu_bytes
    };
    for (to, other, any) in [("50.1.1.1", "50.1.1.2", "0.0.0.0:0"), ("2001:db8::1", "2001:db8::2", "[::]:0")]
    {
        let socket = std::net::UdpSocket::bind(any).expect("a socket");
        let to_port = (to.parse::<IpAddr>().expect("an address"), 9);
        socket.connect(to_port).expect("a route");
        eventually(to, || {
            // It is too long for the router behind: an error comes back, by the next call.
            _ = socket.send(&[0; 1400]);
            mtu(to) == 1300
        });
        assert_eq!(mtu(other), 1500, "of this destination alone");
    }
}

/// `ip route get` does not: a socket shows it.
#[test]
#[ignore = "wants root"]
fn ipv6_without_a_route_chooses_a_source_and_asks_again() {
    let script = "ip -n $A addr del fd01::1/64 dev a1
        ip -n $A -6 rule add from fd02::1 table 100
        ip -n $A -6 route add default via fd02::2 table 100";
    let Some(_rig) = Rig::new("source", script) else { return };
    let tables = Mirror::open().expect("a mirror").tables();
    let to: IpAddr = "2001:db8::1".parse().expect("an address");
    let socket = std::net::UdpSocket::bind("[::]:0").expect("a socket");
    socket.connect((to, 9)).expect("a route");
    let hop = tables.lookup(&Query::to(to)).expect("a hop");
    assert_eq!(hop.source, Some(socket.local_addr().expect("an address").ip()));
    assert_eq!(hop.gateway, "fd02::2".parse().ok());
}
