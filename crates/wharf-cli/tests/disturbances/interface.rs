//! Disturbances of interfaces.

use crate::bed::Bed;
use crate::kind::{INTERFACES, Kind, Packet, Tap, VETH, Xdp};
use wharf::OnGone;

pub const KINDS: &[Kind] = &[
    Kind::new("near-down-up", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR down", "ip link set NEAR up")
    }),
    Kind::new("far-down-up", VETH, |bed| bed.for_a_while("ip link set vb down", "ip link set vb up")),
    Kind::new("near-flaps", INTERFACES, |bed| flap(bed, "NEAR")),
    Kind::new("far-flaps", VETH, |bed| flap(bed, "vb")),
    Kind::new("made-again", VETH, |bed| make_again(bed, "")),
    Kind::new("made-again-with-4-queues", VETH, |bed| make_again(bed, " numrxqueues 4 numtxqueues 4")),
    Kind::new("made-again-with-1-and-2-queues", VETH, |bed| make_again(bed, " numrxqueues 1 numtxqueues 2")),
    Kind::new("made-again-3-times", VETH, |bed| (0..3).for_each(|_| make_again(bed, ""))),
    Kind::new("deleted", &[Tap], |bed| bed.run("ip link del NEAR")),
    Kind::new("deleted-3-times", &[Tap], delete_often),
    Kind::new("deleted-with-other-end", VETH, |bed| {
        bed.for_a_while("ip link del vb", "true");
        bed.make_pair("");
    }),
    Kind::new("renamed-and-back", INTERFACES, rename),
    Kind::new("renamed-and-another-in-its-place", VETH, replace),
    Kind::new("near-moved-and-back", INTERFACES, |bed| move_out(bed, "NEAR")),
    Kind::new("far-moved-and-back", VETH, |bed| move_out(bed, "vb")),
    Kind::new("mtu-600", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR mtu 600", "ip link set NEAR mtu 1500")
    }),
    Kind::new("mtu-9000", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR mtu 9000", "ip link set NEAR mtu 1500")
    }),
    Kind::new("mtu-68", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR mtu 68", "ip link set NEAR mtu 1500")
    }),
    Kind::new("far-mtu-68", VETH, |bed| bed.for_a_while("ip link set vb mtu 68", "ip link set vb mtu 1500")),
    Kind::new("mac-changed", INTERFACES, |bed| bed.run("ip link set NEAR address 02:00:00:00:00:77")),
    Kind::new("far-mac-changed", VETH, |bed| bed.run("ip link set vb address 02:00:00:00:00:78")),
    Kind::new("near-in-bridge", INTERFACES, |bed| join_bridge(bed, "NEAR")),
    Kind::new("far-in-bridge", VETH, |bed| join_bridge(bed, "vb")),
    Kind::new("macvlan-on-it", INTERFACES, |bed| {
        bed.for_a_while("ip link add link NEAR name mv0 type macvlan", "ip link del mv0");
    }),
    Kind::new("promiscuous", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR promisc on", "ip link set NEAR promisc off")
    }),
    Kind::new("arp-off", INTERFACES, |bed| {
        bed.for_a_while("ip link set NEAR arp off", "ip link set NEAR arp on")
    }),
    Kind::new("offloads-off", INTERFACES, |bed| {
        bed.for_a_while(
            "ethtool -K NEAR tx off sg off tso off gso off gro off",
            "ethtool -K NEAR tx on sg on tso on gso on gro on",
        );
    }),
    Kind::new("channels", VETH, set_channels),
    Kind::new("carrier-off", &[Tap], |bed| {
        bed.for_a_while("ip link set NEAR carrier off", "ip link set NEAR carrier on")
    }),
    Kind::new("xdp-program-near", VETH, |bed| take_by_xdp(bed, "va")),
    Kind::new("xdp-program-far", VETH, |bed| take_by_xdp(bed, "vb")),
    Kind::new("addresses-flushed", INTERFACES, flush_addresses),
    Kind::new("deleted-for-good-fail", INTERFACES, |bed| bed.run("ip link del NEAR"))
        .on_gone(OnGone::Fail)
        .errors(),
    Kind::new("deleted-for-good-wait", INTERFACES, |bed| bed.run("ip link del NEAR"))
        .on_gone(OnGone::Wait)
        .errors(),
    Kind::new("deleted-for-good-reopen", &[Packet, Xdp], |bed| bed.run("ip link del NEAR")).errors(),
];

fn flap(bed: &mut Bed, interface: &str) {
    for _ in 0..20 {
        bed.run(&format!("ip link set {interface} down"));
        bed.run(&format!("ip link set {interface} up"));
    }
}

fn make_again(bed: &mut Bed, queues: &str) {
    bed.for_a_while("ip link del va", "true");
    bed.make_pair(queues);
}

fn delete_often(bed: &mut Bed) {
    for _ in 0..3 {
        // The device makes it again.
        while !bed.tries("ip link del NEAR") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        bed.hold();
    }
}

fn rename(bed: &mut Bed) {
    bed.for_a_while("ip link set NEAR name other0", "ip link set other0 name NEAR");
}

/// The interface goes on under another name, and there is another one of its name meanwhile.
fn replace(bed: &mut Bed) {
    bed.run("ip link set va name other0");
    bed.for_a_while("ip link add va type veth peer name vc", "ip link del va");
    bed.run("ip link set other0 name va");
}

fn move_out(bed: &mut Bed, interface: &str) {
    bed.open_outside();
    bed.for_a_while(
        &format!("ip link set {interface} netns OUTSIDE"),
        &format!("nsenter --net=/proc/OUTSIDE/ns/net ip link set {interface} netns THREAD"),
    );
    bed.run(&format!("ip link set {interface} up"));
}

fn join_bridge(bed: &mut Bed, interface: &str) {
    bed.run("ip link add br0 type bridge forward_delay 0");
    bed.run("ip link set br0 up");
    bed.for_a_while(
        &format!("ip link set {interface} master br0"),
        &format!("ip link set {interface} nomaster"),
    );
    bed.run("ip link del br0");
}

fn set_channels(bed: &mut Bed) {
    bed.for_a_while("ethtool -L va rx 2 tx 2", "ethtool -L va rx 1 tx 1");
}

/// A program that receives by `xdp` attaches a program of its own.
fn take_by_xdp(bed: &mut Bed, interface: &str) {
    let from = format!("xdp:{interface}");
    let program = env!("CARGO_BIN_EXE_wharf");
    let other =
        crate::bed::Process::start(std::process::Command::new(program).args(["receive", "--from", &from]));
    bed.hold();
    other.signal(libc::SIGTERM);
    other.wait();
}

fn flush_addresses(bed: &mut Bed) {
    bed.for_a_while("ip addr add 10.9.0.1/24 dev NEAR", "ip addr flush dev NEAR");
    bed.run("ip neigh flush dev NEAR");
}
