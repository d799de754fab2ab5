//! Disturbances of what is behind the interface: the kernel's disciplines, routes and sockets.

use crate::bed::Bed;
use crate::far::{CLOSED, OPEN, UNREAD};
use crate::kind::{INTERFACES, Kind, Packet, Tap, Udp};
use wharf::OnStall;

/// A discipline that passes on a packet now and then.
const SLOW: &str = "tbf rate 1kbit burst 1600 limit 10000000";
/// One that drops nearly all.
const LOSSY: &str = "tbf rate 1kbit burst 1600 limit 1600";

pub const KINDS: &[Kind] = &[
    Kind::new("qdisc-loses-all", &[Packet, Udp], |bed| set_qdisc(bed, LOSSY)),
    Kind::new("qdisc-so-slow-that-it-stalls", &[Packet, Udp], |bed| set_qdisc(bed, SLOW))
        .stalls(OnStall::Reset),
    Kind::new("qdisc-of-one-packet", &[Packet, Udp], |bed| set_qdisc(bed, "pfifo limit 1")),
    Kind::new("qdiscs-come-and-go", &[Packet, Udp], change_qdiscs),
    Kind::new("noqueue", &[Packet, Udp], |bed| set_qdisc(bed, "noqueue")),
    Kind::new("txqueuelen-1", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR txqueuelen 1", "ip link set NEAR txqueuelen 1000");
    }),
    Kind::new("slow-wire-behind-it", &[Tap], shape_behind).stalls(OnStall::Reset),
    Kind::new("stalls-for-good-fail", &[Packet, Udp, Tap], stall_for_good).stalls(OnStall::Fail).errors(),
    Kind::new("stalls-for-good-report", &[Packet, Udp, Tap], stall_for_good).errors(),
    Kind::new("lo-down-up", &[Udp], |bed| bed.for_a_while("ip link set lo down", "ip link set lo up")),
    Kind::new("lo-mtu-1280", &[Udp], |bed| {
        bed.for_a_while("ip link set lo mtu 1280", "ip link set lo mtu 65536")
    }),
    Kind::new("lo-mtu-68", &[Udp], |bed| {
        bed.for_a_while("ip link set lo mtu 68", "ip link set lo mtu 65536")
    }),
    Kind::new("address-removed", &[Udp], |bed| {
        bed.for_a_while("ip addr del 10.9.0.2/32 dev lo", "ip addr add 10.9.0.2/32 dev lo");
    }),
    Kind::new("unreachable-route", &[Udp], |bed| set_route(bed, "unreachable")),
    Kind::new("prohibited-route", &[Udp], |bed| set_route(bed, "prohibit")),
    Kind::new("blackhole-route", &[Udp], |bed| set_route(bed, "blackhole")),
    Kind::new("receivers-socket-closed", &[Udp], |bed| set_socket(bed, CLOSED)),
    Kind::new("receivers-socket-unread", &[Udp], |bed| set_socket(bed, UNREAD)),
];

fn set_qdisc(bed: &mut Bed, qdisc: &str) {
    bed.for_a_while(
        &format!("tc qdisc replace dev NEAR root {qdisc}"),
        "tc qdisc replace dev NEAR root pfifo",
    );
    bed.run("tc qdisc del dev NEAR root");
}

fn change_qdiscs(bed: &mut Bed) {
    for qdisc in ["pfifo limit 10", "pfifo_fast", "bfifo limit 3000"].repeat(4) {
        bed.run(&format!("tc qdisc replace dev NEAR root {qdisc}"));
    }
    bed.run("tc qdisc del dev NEAR root");
}

/// What comes in at the TAP's interface leaves by a wire that stalls.
fn shape_behind(bed: &mut Bed) {
    begin_shaping(bed);
    bed.hold();
    // A reset makes another interface.
    bed.tries("tc qdisc del dev NEAR ingress");
    bed.run("ip link del ifb9");
}

fn begin_shaping(bed: &Bed) {
    bed.run("ip link add ifb9 type ifb");
    bed.run("ip link set ifb9 up");
    bed.run(&format!("tc qdisc add dev ifb9 root {SLOW}"));
    bed.run("tc qdisc add dev NEAR ingress");
    bed.run("tc filter add dev NEAR parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb9");
}

fn stall_for_good(bed: &mut Bed) {
    if bed.device == Tap {
        return begin_shaping(bed);
    }
    bed.run(&format!("tc qdisc replace dev NEAR root {SLOW}"));
}

fn set_route(bed: &mut Bed, kind: &str) {
    bed.run("ip addr del 10.9.0.2/32 dev lo");
    let route = |verb: &str| format!("ip route {verb} {kind} 10.9.0.2/32");
    bed.for_a_while(&route("add"), &route("del"));
    bed.run("ip addr add 10.9.0.2/32 dev lo");
}

fn set_socket(bed: &mut Bed, state: u8) {
    bed.far.set_socket(state);
    bed.hold();
    bed.far.set_socket(OPEN);
}
