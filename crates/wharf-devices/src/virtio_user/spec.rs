//! `virtio-user:SOCKET[,server=off|on,...]`: the specification's keys ([`KIND`]), and opening.

use super::cleaning::{self, Cleaning};
use super::session::{Endpoint, Session};
use super::{Napi, PAIRS_MAX, VirtioUser, VirtioUserOptions};
use crate::host::HostClock;
use crate::spec::{Can, DeviceSpec, Kind, LIMIT, Opened, Opening, Place, QueueLayout};
use crate::virtio::Layout;
use crate::virtio::packed::PackedDriver;
use crate::virtio::split::SplitDriver;
use std::path::Path;
use wharf_core::device::{DeviceError, Duplex};
use wharf_core::options::{Key, OptionError};

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "a back end that listens; server=on: one that connects",
    place: Place::Socket("SOCKET"),
    keys: &[
        Key::off_on("server", "Listen for a back end, in place of connecting to one")
            .when("on, if the back end connects (Open vSwitch: `dpdkvhostuserclient`)"),
        Key::off_on("reconnect", "Connect again when the back end is gone")
            .when("on, if the back end may be restarted"),
        Key::number("queues", 1..=PAIRS_MAX as u64, "1 to 32", "1, or --queues", "Queue pairs to use")
            .when("As many as the back end has"),
        Key::off_on("packed", "Use packed rings (`VIRTIO_F_RING_PACKED`)")
            .when("on, if the back end offers it: fewer cache lines per packet"),
        Key::word(
            "in_order",
            &["auto", "on", "off"],
            "Buffers come back in order (`VIRTIO_F_IN_ORDER`): where offered, needed, or refused",
        )
        .when("off, if the back end's order is faulty; on, to fail without it"),
        Key::word(
            "mrg_rxbuf",
            &["auto", "on", "off"],
            "Long packets over several buffers (`VIRTIO_NET_F_MRG_RXBUF`): where offered, needed, or refused",
        )
        .when("on, if packets longer than a frame arrive and must not be lost"),
        Key::on_off("offload", "Checksum and segmentation offloads")
            .when("off, if the back end takes finished frames only"),
        Key::number("size", 0..=u64::MAX, "1 to 32768", "256", "Descriptors of each virtqueue")
            .when("Higher, if the back end is called seldom; lower, for less delay behind the byte limit"),
        Key::word(
            "napi",
            &["on", "off", "timer"],
            "When sent buffers are reaped: on the back end's interrupt, on transmit, or after a time",
        )
        .when("off or timer, to trade the byte limit for fewer interrupts"),
        Key::word(
            "clean",
            &["here", "anywhere"],
            "With napi=on: the thread that owns the queue reaps, or the one that receives as well",
        )
        .when("anywhere, if one thread receives all the time"),
        Key::on_off("copy", "Copy frames; off: share the pool's memory with the back end, which is trusted")
            .when("off, if the back end is trusted with the pool: no copy"),
        LIMIT,
    ],
    queues: QueueLayout::Pairs,
    can: Can::ECHO,
    waits: "up to 60 s for its other side",
    whole_by: Some(("offload", "off")),
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "virtio-user",
        "virtio-user:SOCKET[,server=off|on,reconnect=off|on,queues=1,packed=off|on,in_order=auto|on|off,mrg_rxbuf=auto|on|off,offload=on|off,size=256,napi=on|off|timer,clean=here|anywhere,copy=on|off,limit=auto|bytes|packets], both ways",
        "a virtio-net driver, over a vhost-user back end",
        open_kind,
    )
};

/// Opens it with the queue pairs of `opening` unless the specification has a number of its own.
fn open_kind(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let options = spec.options();
    let offered = |key| match options.word(key) {
        Some("on") => Some(true),
        Some("off") => Some(false),
        _ => None,
    };
    let mut wanted = VirtioUserOptions {
        napi: napi(spec)?,
        server: options.is_on("server"),
        reconnect: options.is_on("reconnect"),
        packed: options.is_on("packed"),
        in_order: offered("in_order"),
        mrg_rxbuf: offered("mrg_rxbuf"),
        offload: options.is_on("offload"),
        copy: options.is_on("copy"),
        limit_unit: spec.limit_unit().unwrap_or_default(),
        pairs: spec.pairs(opening.queues, PAIRS_MAX)?,
        ..VirtioUserOptions::default()
    };
    if let Some(size) = options.number("size") {
        let layout = if wanted.packed { Layout::Packed } else { Layout::Split };
        let checked = layout.check_size(u32::try_from(size).unwrap_or(u32::MAX));
        wanted.size = checked.map_err(|error| spec.fault(format!("size: {error}")))?;
    }
    Ok(vec![Opened::new(open(Path::new(spec.place()), wanted)?.into())])
}

fn napi(spec: &DeviceSpec) -> Result<Napi, DeviceError> {
    let anywhere = spec.options().word("clean") == Some("anywhere");
    match spec.options().word("napi") {
        Some("off" | "timer") if anywhere => {
            Err(spec.fault("clean: with napi=off or timer, the sender that transmits cleans"))
        }
        Some("off") => Ok(Napi::Off),
        Some("timer") => Ok(Napi::Timer),
        _ => Ok(Napi::On { anywhere }),
    }
}

/// Opens the driver, with either ring layout.
///
/// # Errors
/// [`DeviceError::Io`] if there is no back end, or it rejects something; [`DeviceError::Refused`] for an
/// invalid size, [`DeviceError::Unsupported`] for features that the back end lacks.
pub fn open(path: &Path, options: VirtioUserOptions) -> Result<Box<dyn Duplex>, DeviceError> {
    let name = format!("virtio-user:{}", path.display().to_string().escape_debug());
    options.check().map_err(|what| OptionError { subject: name.clone(), what })?;
    let endpoint = Endpoint::new(name, path.into(), options)?;
    let session = Session::open(&endpoint, endpoint.connect_soon()?, None)?;
    Ok(match options.napi {
        Napi::On { anywhere } => cleaned(endpoint, session, cleaning::Napi::new(anywhere)),
        Napi::Off => cleaned(endpoint, session, cleaning::AtTransmit::<()>::default()),
        Napi::Timer => cleaned(endpoint, session, cleaning::AtTransmit::ticking(HostClock)),
    })
}

fn cleaned<C: Cleaning>(endpoint: Endpoint, session: Session, cleaning: C) -> Box<dyn Duplex> {
    match session.layout() {
        Layout::Split => Box::new(VirtioUser::<SplitDriver, C>::new(endpoint, session, cleaning)),
        Layout::Packed => Box::new(VirtioUser::<PackedDriver, C>::new(endpoint, session, cleaning)),
    }
}
