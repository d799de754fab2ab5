//! `vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off]`.

use super::{PAIRS_MAX, VhostUser, VhostUserOptions};
use crate::spec::{Can, DeviceSpec, Kind, Opened, Opening, Place, QueueLayout};
use std::path::Path;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "nothing; client=on: a driver that listens",
    place: Place::Socket("SOCKET"),
    keys: &[
        Key::off_on("client", "Connect to a driver that listens, in place of listening for one"),
        Key::number(
            "queues",
            (1, PAIRS_MAX as u64),
            "1 to 32",
            "1, or --queues",
            "Queue pairs that it offers",
        ),
        Key::on_off("packed", "Offer packed rings (`VIRTIO_F_RING_PACKED`)"),
    ],
    queues: QueueLayout::Pairs,
    can: Can::ECHO,
    ..Kind::new(
        "vhost-user",
        "vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off], both ways",
        "a virtio-net device, for a virtual machine or another driver",
        open,
    )
};

/// Opens it with the queue pairs of `opening` unless the specification has a number of its own.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let options = VhostUserOptions {
        client: spec.options().is_on("client"),
        pairs: spec.pairs(opening.queues, PAIRS_MAX)?,
        packed: spec.options().is_on("packed"),
    };
    Ok(vec![Opened::duplex(VhostUser::open(Path::new(spec.place()), options)?)])
}
