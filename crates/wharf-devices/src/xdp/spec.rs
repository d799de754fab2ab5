//! `xdp:INTERFACE[,queue=auto,mode=auto|copy|zerocopy,ring=N,csum=fill|offload,timestamps=on|off]` to send, with `[,csum=fill|off,steer=all|FLOWS,promisc=on|off]` to receive.

use super::{
    Access, BpfObject, Flow, Mode, QueueChoice, ReceiveOptions, Steering, XdpBoth, XdpOptions, XdpReceiver,
    XdpSender,
};
use crate::host_loss::HostLoss;
use crate::interfaces::{Login, Uses};
use crate::requirements::{BPF, NET_ADMIN, NET_RAW, Requirement};
use crate::spec::{Can, DeviceSpec, Direction, Kind, LIMIT, Opened, Opening, Place, QueueLayout};
use std::net::IpAddr;
use std::path::PathBuf;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;
use wharf_sys::xdp::BusyPoll;

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
        Key::number("ring", 64..=65536, "64 to 65536 descriptors", "2048 to send, 8192 to receive, more for a longer ring of the driver's", "Descriptors of each ring, rounded up to a power of two").when("Higher, if frames are dropped as ring-full; lower, to bound what waits behind the byte limit"),
        Key::word(
            "mode",
            &["auto", "copy", "zerocopy"],
            "How frames get to the driver: zero-copy where it can, copied by the kernel, or zero-copy or not at all",
        ).when("zerocopy, to fail where it is not zero-copy; copy, if the driver's zero-copy is faulty"),
        Key::text(
            "helper",
            "none",
            "Socket of a privileged helper (`wharf admin helper`, or the AF_XDP device plug-in), which gives the program's map, and sockets where this process may open none",
        )
        .when("In a process without CAP_BPF, CAP_NET_ADMIN or CAP_NET_RAW"),
        Key::word(
            "csum",
            &["fill", "off", "offload"],
            "Checksums that a sender left to its device: fill them in; to receive, off leaves them, and the default fills them in where a peer may leave them; to send, offload leaves them to the driver",
        ).when("off, if nothing behind reads checksums: it saves a pass over each frame; offload, if virtual machines or sockets leave many to an adapter that computes them"),
    ],
    tx_keys: &[
        Key::word("timestamps", &["off", "on"], "Ask the kernel for the time at which it has sent a copied frame").when("on, to have the ring delay of a report end there, and not when the frame came back to Wharf"),
        LIMIT,
    ],
    rx_keys: &[
        Key::forms("steer", "all, tcp:PORT, udp:FIRST-LAST, ip:ADDRESS/PREFIX", "all", "Frames to receive, by destination, several joined by `+`: the others stay with the host").when("udp:4433, to have one service's packets and leave the host its network"),
        Key::on_off("promisc", "Receive frames for other addresses, too").when("off, to receive only what is addressed to this host"),
        Key::number("busy-poll", 0..=10_000, "0 to 10000 microseconds", "0, interrupts", "Longest time in which a look at an empty ring polls the adapter itself").when("20, with --poll busy, to bring down latency where a processor is to spare; where the kernel cannot put interrupts off by queue (Linux 6.13), `wharf doctor` has the commands"),
        Key::number("busy-budget", 1..=65535, "1 to 65535 frames", "64", "Most frames that one look takes from the adapter, with busy-poll").when("Lower, to have the first of many frames sooner; higher, to poll less often at high rates"),
        Key::text(
            "map",
            "of Wharf's own program",
            "Map of sockets (XSKMAP) of another program that is attached: a path in a BPF file system, or fd:N for a descriptor that this process has inherited",
        )
        .when("If the interface has a program of yours, which picks the frames"),
        Key::text(
            "program",
            "attached already, with map",
            "Program to attach while the device is open, which reads the sockets in map: a path, or fd:N",
        )
        .when("If nothing else attaches your program"),
    ],
    check: |spec| choice(spec).and(steering(spec)).and(access(spec)).map(drop),
    queues: QueueLayout::Devices,
    can: Can::ECHO,
    waits: "up to 3 s for the XDP program or the socket of another process, should that be leaving",
    host_loss,
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "xdp",
        "xdp:INTERFACE[,queue=auto|N|N-M,mode=auto|copy|zerocopy,ring=N,helper=SOCKET,csum=fill|off|offload], with [,timestamps=off|on,limit=auto|bytes|packets] to send, with [,steer=all|FLOWS,promisc=on|off,busy-poll=US,busy-budget=N,map=PATH|fd:N,program=PATH|fd:N] to receive",
        "AF_XDP on queues of an interface",
        open,
    )
};

/// Opens a device for each of as many queues as are asked for. One that receives has all further queues that its choice gives it.
fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (interface, count) = (spec.place(), opening.queues.max(1));
    let (choice, csum) = (choice(spec)?, csum(spec, opening.direction)?);
    let modes = [("auto", Mode::Auto), ("copy", Mode::Copy), ("zerocopy", Mode::ZeroCopy)];
    let common = XdpOptions {
        mode: spec.choice("mode", modes),
        ring_entries: spec.number("ring"),
        access: access(spec)?,
        offload_checksums: csum == Some("offload"),
        timestamps: spec.options().word("timestamps") == Some("on"),
        limit_unit: spec.limit_unit(),
        ..XdpOptions::default()
    };
    let to_receive = ReceiveOptions {
        common,
        fill_checksums: csum.filter(|&word| word != "offload").map(|word| word == "fill"),
        promiscuous: spec.options().is_on("promisc"),
        steering: steering(spec)?,
        busy_poll: busy_poll(spec),
        pool_shared_by: opening.pool_shared_by,
    };
    match opening.direction {
        Direction::Send => {
            let queues = choice.to_send(count).map_err(|what| spec.fault(what))?;
            Ok(XdpSender::open_queues(interface, &to_receive.common, queues)?
                .into_iter()
                .map(Opened::tx)
                .collect())
        }
        Direction::Receive => {
            let receivers = XdpReceiver::open_queues(interface, &to_receive, choice, count)?;
            let opened = |one: XdpReceiver| Opened { frame_bytes: one.frame_bytes(), ..Opened::rx(one) };
            Ok(receivers.into_iter().map(opened).collect())
        }
        Direction::Both => {
            let devices = XdpBoth::open_queues(interface, &to_receive, choice, count)?;
            let opened = |one: XdpBoth| Opened { frame_bytes: one.frame_bytes(), ..Opened::duplex(one) };
            Ok(devices.into_iter().map(opened).collect())
        }
    }
}

/// Returns the sources of sockets and of the program.
fn access(spec: &DeviceSpec) -> Result<Access, DeviceError> {
    let object = |key| {
        let read = spec.options().text(key).map(BpfObject::parse).transpose();
        read.map_err(|what| spec.fault(format!("{key}: {what}")))
    };
    let helper = spec.options().text("helper").map(PathBuf::from);
    let access = Access { helper, map: object("map")?, program: object("program")? };
    match &access {
        Access { helper: Some(_), map: Some(_), .. } => {
            Err(spec.fault("helper, map: the helper has a map of its own: want one of them"))
        }
        Access { map: None, program: Some(_), .. } => {
            Err(spec.fault("program: which map of sockets does it read? Add map=PATH"))
        }
        Access { helper: Some(_), .. } if spec.options().given().any(|key| key.name == "promisc") => {
            Err(spec.fault("promisc: the helper makes the interface promiscuous for its users, or not (`wharf admin helper --no-promisc`)"))
        }
        Access { helper: Some(_), .. } | Access { map: Some(_), .. } if steering(spec)? != Steering::All => {
            Err(spec.fault("steer: the program is another process's, and picks the frames"))
        }
        _ => Ok(access),
    }
}

/// Returns the treatment of checksums, if it is given: some go with one direction only.
fn csum(spec: &DeviceSpec, direction: Direction) -> Result<Option<&'static str>, DeviceError> {
    let word = spec.options().word("csum");
    match (word, direction) {
        (Some("off"), Direction::Send) => Err(spec.fault("csum: to send takes fill or offload")),
        (Some("offload"), Direction::Receive) => Err(spec.fault("csum: to receive takes fill or off")),
        _ => Ok(word),
    }
}

fn choice(spec: &DeviceSpec) -> Result<QueueChoice, DeviceError> {
    let text = spec.options().text("queue");
    text.map_or(Ok(QueueChoice::Auto), QueueChoice::parse).map_err(|what| spec.fault(what))
}

fn busy_poll(spec: &DeviceSpec) -> Option<BusyPoll> {
    let time_us = spec.number("busy-poll").filter(|&time_us| time_us > 0)?;
    Some(BusyPoll { time_us, budget_frames: spec.number("busy-budget").unwrap_or(64) })
}

fn steering(spec: &DeviceSpec) -> Result<Steering, DeviceError> {
    let text = spec.options().text("steer");
    text.map_or(Ok(Steering::All), Steering::parse).map_err(|what| spec.fault(what))
}

/// Returns what flows take from the host, and whether that cuts it off.
fn steered_from(uses: &Uses, flows: &[Flow]) -> Option<(String, bool)> {
    let taken = |login: &&Login| flows.iter().any(|flow| flow.takes_tcp(login.server, login.port));
    if let Some(login) = uses.login.as_ref().filter(taken) {
        return Some((format!("this login (SSH from {})", login.client), true));
    }
    let own = |address: &&IpAddr| flows.iter().any(|flow| flow.takes_address(**address));
    if let Some(address) = uses.addresses.iter().find(own) {
        return Some((format!("all that comes to {address}"), uses.is_vital()));
    }
    let has_answers = flows.iter().any(Flow::takes_answers);
    (has_answers && uses.has_default_route).then(|| ("the answers to its own connections".into(), true))
}

/// Returns the arrivals that this host loses. A program of the user's own (`map`) takes what its author has
/// chosen.
fn host_loss(spec: &DeviceSpec, direction: Direction) -> Option<HostLoss> {
    if direction == Direction::Send || spec.options().text("map").is_some() {
        return None;
    }
    let (name, interface, uses) = (spec.name(), spec.place().escape_debug(), Uses::of(spec.place()));
    match steering(spec).ok()? {
        Steering::All => {
            let below = match &uses.above[..] {
                [] => String::new(),
                above => format!(", below {},", above.join(", ").escape_debug()),
            };
            let has = uses.words()?;
            let what = format!(
                "{name}: this host receives nothing by {interface} while it is open: {interface}{below} has {has}"
            );
            let can_steer = spec.options().text("helper").is_none();
            let remedy = can_steer.then_some("steer=udp:PORT leaves it the rest");
            Some(HostLoss { what, is_vital: uses.is_vital(), remedy })
        }
        Steering::Flows(flows) => {
            let (lost, is_vital) = steered_from(&uses, &flows)?;
            let what = format!("{name}: steer takes from this host, while it is open, {lost}");
            Some(HostLoss { what, is_vital, remedy: None })
        }
    }
}
