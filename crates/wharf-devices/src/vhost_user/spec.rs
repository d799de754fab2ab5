//! `vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off,in_order=auto|off,offload=on|off]`, and
//! `mode=OCTAL`, `group=NAME`, `limit=auto|bytes|packets`, `mac=MAC+...`, `ip=IP+...`.

use super::{PAIRS_MAX, VhostUser, VhostUserOptions};
use crate::guard;
use crate::spec::{Can, DeviceSpec, Kind, LIMIT, Opened, Opening, Place, QueueLayout};
use std::path::Path;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    needs: "nothing; client=on: a driver that listens",
    place: Place::Socket("SOCKET"),
    keys: &[
        Key::off_on("client", "Connect to a driver that listens, in place of listening for one")
            .when("on, if the virtual machine makes the socket (QEMU: `server=on`)"),
        Key::number(
            "queues",
            1..=PAIRS_MAX as u64,
            "1 to 32",
            "1, or --queues",
            "Queue pairs that it offers",
        )
        .when("As many as the virtual machine has (QEMU: `queues=`)"),
        Key::on_off("packed", "Offer packed rings (`VIRTIO_F_RING_PACKED`)")
            .when("off, if the driver's packed rings are faulty"),
        Key::word("in_order", &["auto", "off"], "Offer that buffers are used in order (`VIRTIO_F_IN_ORDER`)")
            .when("off, if the virtual machine's QEMU hangs when this process ends (QEMU 10)"),
        Key::on_off("offload", "Offer checksum and segmentation offloads")
            .when("off, if what stands behind takes finished frames only"),
        Key::text(
            "mode",
            "by umask, or 660 with group",
            "Permissions of the socket, octal; a user that may write to it may connect",
        )
        .when("660 with group, to let a virtual machine of another user connect"),
        Key::text(
            "group",
            "the process's",
            "Group of the socket, a name of /etc/group or a number, such as that of the virtual machines",
        )
        .when("The group of the virtual machine's user, such as kvm"),
        LIMIT,
        guard::MAC,
        guard::IP,
    ],
    queues: QueueLayout::Pairs,
    can: Can::ECHO,
    check: guard::check,
    may_pause: true,
    waits: "up to 60 s for its other side",
    whole_by: Some(("offload", "off")),
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "vhost-user",
        "vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off,in_order=auto|off,offload=on|off,mode=OCTAL,group=NAME,limit=auto|bytes|packets,mac=MAC+...,ip=IP+...], both ways",
        "a virtio-net device, for a virtual machine or another driver",
        open,
    )
};

/// Opens it with the queue pairs of `opening` unless the specification has a number of its own.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (given, group) = (spec.options(), group(spec)?);
    let client = given.is_on("client");
    if client && given.text("mode").or(given.text("group")).is_some() {
        return Err(spec.fault("mode, group: with client=on the socket is the driver's"));
    }
    let options = VhostUserOptions {
        client,
        pairs: spec.pairs(opening.queues, PAIRS_MAX)?,
        packed: given.is_on("packed"),
        offload: given.is_on("offload"),
        in_order: given.word("in_order") != Some("off"),
        mode: mode(spec)?,
        group,
        mac: guard::macs(spec)?.first().copied(),
        limit_unit: spec.limit_unit().unwrap_or_default(),
    };
    guard::guarded(spec, vec![Opened::duplex(VhostUser::open(Path::new(spec.place()), options)?)])
}

fn mode(spec: &DeviceSpec) -> Result<Option<u32>, DeviceError> {
    let Some(text) = spec.options().text("mode") else { return Ok(None) };
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    let fault = || spec.fault(format!("mode: {text:?} is no mode: 0 to 777, octal"));
    mode.ok_or_else(fault).map(Some)
}

fn group(spec: &DeviceSpec) -> Result<Option<u32>, DeviceError> {
    let Some(text) = spec.options().text("group") else { return Ok(None) };
    let all = std::fs::read_to_string("/etc/group").unwrap_or_default();
    // NAME:PASSWORD:NUMBER:MEMBERS (group(5))
    let number = |line: &str| line.strip_prefix(text)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok();
    let group = text.parse().ok().or_else(|| all.lines().find_map(number));
    let fault = || spec.fault(format!("group: {text:?} is no group of /etc/group and no number"));
    group.ok_or_else(fault).map(Some)
}
