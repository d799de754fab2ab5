//! `packet:INTERFACE[,bypass=off|on,ring=1024,limit=auto|bytes|packets]` to send,
//! `packet:INTERFACE[,gso=cut|keep,buffer=32m,promisc=on|off,tpacket=v3|v2]` to receive.

use super::{PacketReceiver, PacketSender, ReceiveOptions, ReceiveVersion, SendOptions, SuperPackets};
use crate::requirements::{NET_RAW, Requirement};
use crate::spec::{Can, DeviceSpec, Direction, Kind, LIMIT, Opened, Opening, Place, QueueLayout};
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "CAP_NET_RAW",
    requirements: &[Requirement::Capability(NET_RAW)],
    place: Place::Interface("INTERFACE"),
    tx_keys: &[
        Key::off_on("bypass", "Skip the kernel's queueing discipline (`PACKET_QDISC_BYPASS`)").when("on, if the discipline on the interface slows Wharf down or reorders: what other programs send then gets no share"),
        Key::number("ring", 1..=65536, "1 to 65536 frames", "1024", "Slots of the transmit ring").when("Lower, to bound what waits behind the byte limit; higher, if the summary shows many packets offered again"),
        LIMIT,
    ],
    rx_keys: &[
        Key::word("gso", &["cut", "keep"], "Super-packets: segment them, or receive them whole").when("keep, if the receiver takes super-packets: it is faster, and frames are not as on the wire"),
        Key::number("buffer", 256 << 10..=1 << 30, "256k to 1g bytes", "32m", "Bytes of the receive ring").when("Higher, if `wharf explain ring-full` applies; lower, where memory is short"),
        Key::on_off("promisc", "Receive frames for other addresses, too").when("off, to receive only what is addressed to this host"),
        Key::word(
            "tpacket",
            &["v3", "v2"],
            "Kernel's delivery: blocks, each up to 8 ms late before Linux 6.18, or each frame at once, 256 of them in 32m; a super-packet by UFO costs v2 the frames of 0.2 s",
        ).when("v2, before Linux 6.18, if 8 ms of delay are too many"),
    ],
    queues: QueueLayout::Devices,
    can: Can::BOTH,
    whole_by: Some(("gso", "cut")),
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "packet",
        "packet:INTERFACE[,bypass=off|on,ring=1024,limit=auto|bytes|packets] to send, packet:INTERFACE[,gso=cut|keep,buffer=32m,promisc=on|off,tpacket=v3|v2] to receive",
        "a raw socket on an interface",
        open,
    )
};

/// Opens a socket for each queue and direction.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (interface, count) = (spec.place(), spec.devices(opening.queues));
    let sender = || PacketSender::open(interface, to_send(spec));
    let receivers = || PacketReceiver::open_queues(interface, to_receive(spec), count);
    match opening.direction {
        Direction::Send => (0..count).map(|_| Ok(Opened::tx(sender()?))).collect(),
        Direction::Receive => Ok(receivers()?.into_iter().map(Opened::rx).collect()),
        Direction::Both => {
            let both = |receiver| Ok(Opened { receiving: Some(Box::new(receiver)), ..Opened::tx(sender()?) });
            receivers()?.into_iter().map(both).collect()
        }
    }
}

fn to_send(spec: &DeviceSpec) -> SendOptions {
    SendOptions {
        bypass: spec.options().is_on("bypass"),
        ring_frames: spec.number("ring").unwrap_or(1024),
        limit_unit: spec.limit_unit(),
    }
}

fn to_receive(spec: &DeviceSpec) -> ReceiveOptions {
    ReceiveOptions {
        super_packets: spec.choice("gso", [("cut", SuperPackets::Cut), ("keep", SuperPackets::Keep)]),
        promiscuous: spec.options().is_on("promisc"),
        version: spec.choice("tpacket", [("v3", ReceiveVersion::V3), ("v2", ReceiveVersion::V2)]),
        buffer_bytes: spec.number("buffer").unwrap_or(32 << 20),
    }
}
