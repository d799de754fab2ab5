//! `xdp:INTERFACE[,queue=auto,mode=auto|copy|zerocopy,ring=N]` to send, with `[,csum=fill|off,steer=all|FLOWS,promisc=on|off]` to receive.

use super::{Mode, QueueChoice, ReceiveOptions, Steering, XdpBoth, XdpOptions, XdpReceiver, XdpSender};
use crate::requirements::{BPF, NET_ADMIN, NET_RAW, Requirement};
use crate::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place, QueueLayout};
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "CAP_NET_RAW; to receive, also CAP_NET_ADMIN and CAP_BPF",
    requirements: &[
        Requirement::Capability(NET_RAW),
        Requirement::Capability(NET_ADMIN),
        Requirement::Capability(BPF),
    ],
    place: Place::Interface("INTERFACE"),
    keys: &[
        Key::forms("queue", "auto, N, N-M", "auto", "Queues of the interface: every one that receives, and as many to send as `--queues` says; those from N on; or N to M").when("N, for the queue that the adapter steers your frames to (`ethtool -n NAME`); N-M, to leave the others to the host or to another process"),
        Key::number("ring", (64, 65536), "64 to 65536 descriptors", "2048 to send, 8192 to receive", "Descriptors of each ring, rounded up to a power of two").when("Higher, if frames are dropped as ring-full; lower, to bound what waits behind the byte limit"),
        Key::word(
            "mode",
            &["auto", "copy", "zerocopy"],
            "How frames get to the driver: zero-copy where it can, copied by the kernel, or zero-copy or not at all",
        ).when("zerocopy, to fail where it is not zero-copy; copy, if the driver's zero-copy is faulty"),
    ],
    rx_keys: &[
        Key::word(
            "csum",
            &["fill", "off"],
            "Checksums that the sender left to its device: fill them in, or leave them; by default where a peer may leave them",
        ).when("off, if nothing behind reads checksums: it saves a pass over each frame"),
        Key::forms("steer", "all, tcp:PORT, udp:FIRST-LAST, ip:ADDRESS/PREFIX", "all", "Frames to receive, by destination, several joined by `+`: the others stay with the host").when("udp:4433, to have one service's packets and leave the host its network"),
        Key::on_off("promisc", "Receive frames for other addresses, too").when("off, to receive only what is addressed to this host"),
    ],
    check: |spec| choice(spec).and(steering(spec)).map(drop),
    queues: QueueLayout::Devices,
    can: Can::ECHO,
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "xdp",
        "xdp:INTERFACE[,queue=auto|N|N-M,mode=auto|copy|zerocopy,ring=N] to send, with [,csum=fill|off,steer=all|FLOWS,promisc=on|off] to receive",
        "AF_XDP on queues of an interface",
        open,
    )
};

/// Opens a device for each of as many queues as are asked for. One that receives has all further queues that its choice gives it.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (interface, count) = (spec.place(), opening.queues.count.max(1));
    let choice = choice(spec)?;
    let mode = match spec.options().word("mode") {
        Some("copy") => Mode::Copy,
        Some("zerocopy") => Mode::ZeroCopy,
        _ => Mode::Auto,
    };
    let common = XdpOptions { mode, ring_entries: spec.number("ring"), ..XdpOptions::default() };
    let to_receive = ReceiveOptions {
        common,
        fill_checksums: spec.options().word("csum").map(|word| word == "fill"),
        promiscuous: spec.options().is_on("promisc"),
        steering: steering(spec)?,
        pool_shared_by: opening.queues.pool_shared_by,
    };
    match opening.direction {
        Direction::Send => {
            let queues = choice.to_send(count).map_err(|what| spec.fault(what))?;
            Ok(XdpSender::open_queues(interface, common, queues)?.into_iter().map(Opened::tx).collect())
        }
        Direction::Receive => {
            let receivers = XdpReceiver::open_queues(interface, &to_receive, choice, count)?;
            Ok(receivers.into_iter().map(Opened::rx).collect())
        }
        Direction::Both => {
            let devices = XdpBoth::open_queues(interface, &to_receive, choice, count)?;
            Ok(devices.into_iter().map(Opened::duplex).collect())
        }
    }
}

fn choice(spec: &DeviceSpec) -> Result<QueueChoice, DeviceError> {
    let text = spec.options().text("queue");
    text.map_or(Ok(QueueChoice::Auto), QueueChoice::parse).map_err(|what| spec.fault(what))
}

fn steering(spec: &DeviceSpec) -> Result<Steering, DeviceError> {
    let text = spec.options().text("steer");
    text.map_or(Ok(Steering::All), Steering::parse).map_err(|what| spec.fault(what))
}
