//! Destinations behind each kind of interface on top of others: what is sent arrives at the kernel's socket, from the source that the
//! kernel's own socket has. A kernel without a kind skips it: tests/net-guest.sh has one with all.

use crate::rig::Rig;
use crate::sending::{SOON, send_to, source_of};
use crate::{receive, router};
use std::net::SocketAddr;
use wharf::Direction;
use wharf_route::Fate;

const PORT: u16 = 9002;
/// The same at both ends: `$n` is the namespace, `$w` its wires, `$i` its number, `$o` the other's.
const BOTH: &str = r#"both() { n=$A w=a i=1 o=2; eval "$1"; n=$B w=b i=2 o=1; eval "$1"; }
ip netns exec $B sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.b1.rp_filter=0 net.ipv4.conf.b2.rp_filter=0
ip -n $B addr add 97.0.0.1/32 dev lo; ip -n $B addr add 98.0.0.1/32 dev lo"#;

/// Sends to each destination, twice: to a neighbour that is unknown, and to one that is known. `ADDRESS%VRF` is one in a VRF.
fn arrives(name: &str, script: &str, destinations: &[&str]) {
    let Some(rig) = Rig::new(&format!("kind-{name}"), &format!("{BOTH}\n{script}")) else { return };
    let received = receive(&format!("{}-b", rig.name), PORT);
    let router = router(&["a1", "a2"], Direction::Send);
    let mut sender = router.sender("test").expect("a sender");
    for text in destinations.iter().chain(destinations) {
        let (address, vrf) =
            text.split_once('%').map_or((*text, None), |(address, vrf)| (address, Some(vrf)));
        let mut to = SocketAddr::new(address.parse().expect("an address"), PORT);
        if let (SocketAddr::V6(to), Some(vrf)) = (&mut to, vrf) {
            to.set_scope_id(router.tables().interface_index(vrf).expect("an interface"));
        }
        let fate = send_to(&mut sender, to, 100);
        assert!(matches!(fate, Fate::Routed | Fate::Waits), "{name}, {text}: {fate:?}");
        let left = sender.flush(SOON).expect("a port");
        assert_eq!((left.waiting, left.left), (0, 0), "{name}, {text}: {:?}", router.counts());
        let (from, bytes) =
            received.recv_timeout(SOON).unwrap_or_else(|_| panic!("{name}: {text} did not arrive"));
        let source = match vrf {
            // A socket would have to be bound to it.
            Some(vrf) => {
                let said = rig.sh(&format!("ip -n $A route get {address} vrf {vrf}"));
                let (_, source) = said.split_once("src ").expect("a source");
                source.split(' ').next().and_then(|source| source.parse().ok()).expect("an address")
            }
            None => source_of(to),
        };
        assert_eq!((from.ip().to_canonical(), bytes.len()), (source, 100), "{name}, {text}");
    }
    println!("{name}: {} destinations", destinations.len());
}

#[test]
#[ignore = "root"]
fn vlan_and_qinq() {
    let script = r#"both 'ip -n $n link add v5 link ${w}1 type vlan id 5; ip -n $n link set v5 up; ip -n $n addr add 10.7.0.$i/24 dev v5'
        both 'ip -n $n link add q7 link v5 type vlan id 7; ip -n $n link set q7 up; ip -n $n addr add 10.8.0.$i/24 dev q7'
        both 'ip -n $n link add s9 link ${w}2 type vlan proto 802.1ad id 9; ip -n $n link set s9 up; ip -n $n addr add 10.9.0.$i/24 dev s9'
        ip -n $A route add 97.0.0.0/8 via 10.7.0.2; ip -n $A route add 98.0.0.0/8 via 10.8.0.2"#;
    arrives("vlan", script, &["10.7.0.2", "10.8.0.2", "10.9.0.2", "97.0.0.1", "98.0.0.1"]);
}

#[test]
#[ignore = "root"]
fn bonds() {
    for mode in ["active-backup", "balance-xor xmit_hash_policy layer3+4"] {
        let script = format!(
            r#"both 'ip -n $n link add bo type bond miimon 10 mode {mode}; ip -n $n link set ${{w}}1 down; ip -n $n link set ${{w}}2 down
            ip -n $n link set ${{w}}1 master bo; ip -n $n link set ${{w}}2 master bo; ip -n $n link set bo up; ip -n $n addr add 10.5.0.$i/24 dev bo'
            ip netns exec $B sysctl -qw net.ipv4.conf.bo.rp_filter=0; ip -n $A route add 97.0.0.0/8 via 10.5.0.2"#
        );
        arrives("bond", &script, &["10.5.0.2", "97.0.0.1"]);
    }
}

#[test]
#[ignore = "root"]
fn vrf() {
    let script = r"ip -n $A link add red type vrf table 10; ip -n $A link set red up; ip -n $A link set a2 master red
        ip -n $A addr replace fd02::1/64 dev a2 nodad; ip -n $A addr replace fe80::a:2/64 dev a2 nodad
        ip -n $B addr add 2001:db8::1/128 dev lo nodad; ip -n $A route add 2001:db8::/64 via fd02::2 table 10";
    arrives("vrf", script, &["fd02::2%red", "2001:db8::1%red", "10.1.0.2"]);
}

#[test]
#[ignore = "root"]
fn gre_and_ipip() {
    let script = r#"both 'ip -n $n link add g1 type gre local 10.1.0.$i remote 10.1.0.$o key 9; ip -n $n link set g1 up; ip -n $n addr add 10.5.0.$i/24 dev g1'
        both 'ip -n $n link add t1 type ipip local 10.2.0.$i remote 10.2.0.$o; ip -n $n link set t1 up; ip -n $n addr add 10.6.0.$i/24 dev t1'
        both 'ip -n $n link add e1 type gretap local 10.1.0.$i remote 10.1.0.$o; ip -n $n link set e1 up; ip -n $n addr add 10.8.0.$i/24 dev e1'
        ip netns exec $B sysctl -qw net.ipv4.conf.g1.rp_filter=0 net.ipv4.conf.t1.rp_filter=0
        ip -n $A route add 97.0.0.0/8 dev g1; ip -n $A route add 98.0.0.0/8 via 10.6.0.2"#;
    arrives("tunnels", script, &["10.5.0.2", "10.6.0.2", "10.8.0.2", "97.0.0.1", "98.0.0.1"]);
}

#[test]
#[ignore = "root"]
fn vxlan_on_vlan() {
    let script = r#"both 'ip -n $n link add v5 link ${w}1 type vlan id 5; ip -n $n link set v5 up; ip -n $n addr add 10.7.0.$i/24 dev v5'
        both 'ip -n $n link add vx type vxlan id 7 dstport 4789 remote 10.7.0.$o; ip -n $n link set vx up; ip -n $n addr add 10.6.0.$i/24 dev vx'"#;
    arrives("vxlan-on-vlan", script, &["10.6.0.2"]);
}

#[test]
#[ignore = "root"]
fn macvlan_and_bridge() {
    let script = r"ip -n $A link add mv link a2 type macvlan mode bridge; ip -n $A link set mv up; ip -n $A addr add 10.5.0.1/24 dev mv
        ip -n $B addr add 10.5.0.2/24 dev b2; ip -n $A addr flush dev a1; ip -n $A link add br0 type bridge; ip -n $A link set a1 master br0
        ip -n $A link set br0 up; ip -n $A addr add 10.1.0.1/24 dev br0; ip -n $A route add 97.0.0.0/8 via 10.1.0.2";
    arrives("bridge", script, &["10.1.0.2", "97.0.0.1", "10.5.0.2"]);
}
