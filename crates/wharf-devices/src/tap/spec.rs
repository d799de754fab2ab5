//! `tap:NAME[,offload=on|off,multi_queue=off|on,mtu=1500,ring=500,sndbuf=64k,persist=off|on]`, and
//! `mac=MAC+...`, `ip=IP+...`.

use super::{Tap, TapOptions};
use crate::guard;
use crate::requirements::{NET_ADMIN, Requirement, TUN};
use crate::spec::{Can, DeviceSpec, Kind, Opened, Opening, Place, QueueLayout};
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "CAP_NET_ADMIN, /dev/net/tun",
    requirements: &[Requirement::Capability(NET_ADMIN), TUN],
    place: Place::Interface("NAME"),
    keys: &[
        Key::off_on(
            "multi_queue",
            "Several queues (`IFF_MULTI_QUEUE`), as the interface was made if it exists",
        ).when("on, to use an interface that was made with several queues"),
        Key::on_off("offload", "Checksum and segmentation offloads (`TUNSETOFFLOAD`)").when("off, if the kernel is to segment and to fill in checksums; else Wharf does it for devices that cannot"),
        Key::off_on(
            "persist",
            "The interface outlives this program (`TUNSETPERSIST`); left as it is by default",
        ).when("on, if the interface and its addresses are to stay for the next run"),
        Key::number("mtu", 68..=65521, "68 to 65521", "1500, or as it is", "MTU of the interface").when("As the interfaces behind it have it, above all in tunnels"),
        Key::number(
            "ring",
            1..=65536,
            "1 to 65536",
            "500",
            "Frames that wait for this program, `txqueuelen`",
        ).when("Higher, if `wharf explain ring-full` applies; lower, for less delay"),
        Key::number(
            "sndbuf",
            1..=i32::MAX as u64,
            "1 to 2147483647",
            "64k",
            "Bytes that the kernel takes before they are used (`TUNSETSNDBUF`)",
        ).when("Lower, to make senders wait for what shapes the traffic behind the interface; higher, if they wait for nothing"),
        guard::MAC,
        guard::IP,
    ],
    queues: QueueLayout::Devices,
    can: Can::ECHO,
    check: guard::check,
    whole_by: Some(("offload", "off")),
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "tap",
        "tap:NAME[,offload=on|off,multi_queue=off|on,mtu=1500,ring=500,sndbuf=64k,persist=off|on,mac=MAC+...,ip=IP+...], both ways",
        "a virtual interface of the kernel, with offloads",
        open,
    )
};

fn opened(tap: Tap) -> Opened {
    Opened { super_packets: tap.receives_super_packets(), ..Opened::duplex(tap) }
}

/// Opens a file for each queue, both ways in any direction.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (name, options, count) = (spec.place(), spec.options(), spec.devices(opening.queues));
    if count > 1 && options.word("multi_queue") == Some("off") {
        return Err(spec.fault(format!("multi_queue: off has one queue, not {count}")));
    }
    let wanted = TapOptions {
        multi_queue: options.is_on("multi_queue"),
        offload: options.is_on("offload"),
        persist: options.word("persist").map(|word| word == "on"),
        mtu_bytes: spec.number("mtu"),
        ring_frames: spec.number("ring"),
        send_buffer_bytes: spec.number("sndbuf"),
    };
    guard::guarded(spec, Tap::open_queues(name, wanted, count)?.into_iter().map(opened).collect())
}
