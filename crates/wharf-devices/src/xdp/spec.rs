//! `xdp:INTERFACE[,queue=0,mode=auto|copy|zerocopy]` to send, with `[,csum=fill|off]` to receive.

use super::{Mode, ReceiveOptions, XdpBoth, XdpOptions, XdpReceiver, XdpSender};
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
        Key::number("queue", (0, 65535), "0 to 65535", "0", "First queue of the interface").when("The queue that the adapter steers your frames to (`ethtool -n NAME`)"),
        Key::word(
            "mode",
            &["auto", "copy", "zerocopy"],
            "How frames get to the driver: zero-copy where it can, copied by the kernel, or zero-copy or not at all",
        ).when("zerocopy, to fail where it is not zero-copy; copy, if the driver's zero-copy is faulty"),
    ],
    rx_keys: &[Key::word(
        "csum",
        &["fill", "off"],
        "Checksums that the sender left to its device: fill them in, or leave them; by default where a peer may leave them",
    ).when("off, if nothing behind reads checksums: it saves a pass over each frame")],
    queues: QueueLayout::Devices,
    can: Can::ECHO,
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "xdp",
        "xdp:INTERFACE[,queue=0,mode=auto|copy|zerocopy] to send, with [,csum=fill|off] to receive",
        "AF_XDP on a queue of an interface",
        open,
    )
};

/// Opens a socket for each queue, from the first one on.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (interface, count) = (spec.place(), opening.queues.count.max(1));
    let mode = match spec.options().word("mode") {
        Some("copy") => Mode::Copy,
        Some("zerocopy") => Mode::ZeroCopy,
        _ => Mode::Auto,
    };
    let common = XdpOptions { mode, queue: spec.number("queue").unwrap_or_default() };
    let to_receive = ReceiveOptions {
        common,
        fill_checksums: spec.options().word("csum").map(|word| word == "fill"),
        pool_shared_by: opening.queues.pool_shared_by,
    };
    match opening.direction {
        Direction::Send => {
            let one = |at| XdpOptions { queue: common.queue + at, ..common };
            (0..count).map(|at| Ok(Opened::tx(XdpSender::open(interface, one(at))?))).collect()
        }
        Direction::Receive => {
            Ok(XdpReceiver::open_queues(interface, to_receive, count)?.into_iter().map(Opened::rx).collect())
        }
        Direction::Both => {
            Ok(XdpBoth::open_queues(interface, to_receive, count)?.into_iter().map(Opened::duplex).collect())
        }
    }
}
