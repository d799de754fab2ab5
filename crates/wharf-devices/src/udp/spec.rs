//! `udp:HOST:PORT[,dest=socket|frame,gso=on|off,gro=off|on,buffer=8m,interface=IF]`.

use super::{BUFFER_BYTES, Udp, UdpOptions};
use crate::iface::io_fault;
use crate::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use wharf_core::device::DeviceError;
use wharf_core::options::Key;
use wharf_sys::interface::{Interface, InterfaceSocket};

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    place: Place::Address("HOST:PORT, with an IPv6 address in brackets: udp:[::1]:53"),
    keys: &[
        Key::word(
            "dest",
            &["socket", "frame"],
            "Where payloads go: to HOST:PORT, or by the addresses in each frame; one that only receives has frame alone",
        ).when("frame, to answer several peers from one socket"),
        Key::on_off("gso", "Send payloads of one size as one message (`UDP_SEGMENT`)").when("off, to measure one send per datagram"),
        Key::off_on("gro", "Receive payloads of one flow as one message (`UDP_GRO`)").when("on, if one flow with many datagrams arrives: it is much faster; drops then count joined datagrams as one"),
        Key::number("buffer", 4096..=1 << 30, "4k to 1g bytes", "8m", "Bytes of the socket's receive buffer").when("Higher, if `wharf explain socket-full` applies (`sysctl net.core.rmem_max` bounds it)"),
        Key::forms("interface", "IF", "as the routes say", "Interface at which a multicast group is joined, and by which frames leave to one").when("Where several interfaces lead to the group, or no route does"),
    ],
    can: Can { joins_bursts: true, ignores_addresses: true, ..Can::BOTH },
    doctor: super::doctor::DOCTOR,
    ..Kind::new(
        "udp",
        "udp:HOST:PORT[,dest=socket|frame,gso=on|off,gro=off|on,buffer=8m,interface=IF]",
        "UDP payloads through a kernel socket",
        open,
    )
};

fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let (name, options) = (spec.name(), spec.options());
    // A device that only receives has no peer of its own to send to.
    let by_frame = match options.word("dest") {
        Some("socket") if opening.direction == Direction::Receive => {
            return Err(spec.fault("dest: \"socket\" is none of frame"));
        }
        Some(word) => word == "frame",
        None => opening.direction == Direction::Receive,
    };
    let wanted = UdpOptions {
        segments: options.is_on("gso"),
        joins_received: options.is_on("gro"),
        buffer_bytes: spec.number("buffer").unwrap_or(BUFFER_BYTES),
        interface: options.text("interface").map_or(Ok(0), |interface| index_of(spec, interface))?,
    };
    let addresses = resolve(spec)?;
    let is_group = addresses.iter().any(|address| address.ip().is_multicast());
    if is_group && opening.direction == Direction::Both && options.word("dest").is_none() {
        let what =
            "a multicast group is joined with dest=frame, and only sent to with dest=socket: say which";
        return Err(spec.fault(what));
    }
    if !is_group && wanted.interface > 0 && (!by_frame || opening.direction == Direction::Receive) {
        return Err(spec.fault("interface: it is for multicast groups, and this is no group's address"));
    }
    if by_frame {
        return Ok(vec![Opened::duplex(Udp::bind(&name, &addresses, &wanted)?)]);
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err(spec.fault("port 0 is reserved"));
    }
    Ok(vec![Opened::duplex(Udp::connect(&name, &addresses, &wanted)?)])
}

/// Returns the number of an interface.
fn index_of(spec: &DeviceSpec, interface: &str) -> Result<u32, DeviceError> {
    let socket = InterfaceSocket::open().map_err(io_fault(&spec.name(), "cannot open a socket"))?;
    let found = Interface::find(socket.as_fd(), interface);
    let found = found.map_err(io_fault(&spec.name(), &format!("interface={}", interface.escape_debug())))?;
    Ok(found.index as u32)
}

/// Returns the addresses of `HOST:PORT`, at least one.
fn resolve(spec: &DeviceSpec) -> Result<Vec<SocketAddr>, DeviceError> {
    let Some((host, port)) = spec.place().rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
        return Err(spec.which_place());
    };
    let Ok(port) = port.parse::<u16>() else {
        return Err(spec.fault(format!("\"{}\" is no port: 0 to 65535", port.escape_debug())));
    };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host,
        None if host.contains(':') => {
            return Err(spec.fault("an IPv6 address stands in brackets: udp:[::1]:53"));
        }
        None => host,
    };
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        found => {
            let source = found.err().unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
            let what = format!("no address of {} is known", host.escape_debug());
            Err(io_fault(&spec.name(), &what)(source))
        }
    }
}
