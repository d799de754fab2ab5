//! `udp:HOST:PORT[,dest=socket|frame,gso=on|off,gro=off|on,buffer=8m]`.

use super::{Udp, UdpOptions};
use crate::open::{Direction, Options};
use crate::units;
use std::net::{SocketAddr, ToSocketAddrs};
use wharf_core::device::DeviceError;

/// Opens what the parts of a specification behind its colon say.
///
/// # Errors
/// [`DeviceError::Unsupported`] for what cannot be, and those of [`Udp::connect`] and [`Udp::bind`].
pub(crate) fn open(parts: &[String], direction: Direction) -> Result<Udp, DeviceError> {
    let (place, parts) = parts.split_first().map_or(("", parts), |(place, parts)| (place.as_str(), parts));
    let name = if place.is_empty() { "udp".into() } else { format!("udp:{}", place.escape_debug()) };
    let options = Options::new(&name, parts, &["dest", "gso", "gro", "buffer"])?;
    let to = [("socket", false), ("frame", true)];
    // Who only receives has nowhere of its own to send to.
    let ways = if direction == Direction::Receive { &to[1..] } else { &to[..] };
    let by_frame = options.choose("dest", ways)?;
    let mut spec = UdpOptions {
        segments: options.choose("gso", &[("on", true), ("off", false)])?,
        joins_received: options.choose("gro", &[("off", false), ("on", true)])?,
        ..UdpOptions::default()
    };
    if let Some(bytes) = options.read("buffer", units::size_bytes)? {
        spec.buffer_bytes = match usize::try_from(bytes) {
            Ok(bytes @ 4096..=0x4000_0000) => bytes,
            _ => return Err(options.fault(&format!("buffer: {bytes} cannot be: 4k to 1g bytes"))),
        };
    }
    let addresses = resolve(&name, place, &options)?;
    if by_frame {
        return Udp::bind(&name, &addresses, &spec);
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err(options.fault("port 0 is nobody's"));
    }
    Udp::connect(&name, &addresses, &spec)
}

/// The addresses of `HOST:PORT`, at least one.
fn resolve(name: &str, place: &str, options: &Options<'_>) -> Result<Vec<SocketAddr>, DeviceError> {
    let Some((host, port)) = place.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
        let what = "which address? udp:HOST:PORT, with an IPv6 address in brackets: udp:[::1]:53";
        return Err(options.fault(what));
    };
    let Ok(port) = port.parse::<u16>() else {
        return Err(options.fault(&format!("\"{}\" is no port: 0 to 65535", port.escape_debug())));
    };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host,
        None if host.contains(':') => {
            return Err(options.fault("an IPv6 address stands in brackets: udp:[::1]:53"));
        }
        None => host,
    };
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        found => {
            let source = found.err().unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
            let what = format!("no address of {} is known", host.escape_debug());
            Err(DeviceError::Io { device: name.into(), what, source })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::open::{Direction, open};

    #[test]
    fn what_is_wrong_is_told_in_one_line_with_what_is_right() {
        let which = "which address? udp:HOST:PORT, with an IPv6 address in brackets: udp:[::1]:53";
        let keys = r#"unknown key "ring"; its keys are dest, gso, gro, buffer"#;
        let cases = [
            ("udp", format!("udp: {which}")),
            ("udp::9", format!("udp::9: {which}")),
            ("udp:127.0.0.1:x", r#"udp:127.0.0.1:x: "x" is no port: 0 to 65535"#.into()),
            ("udp:127.0.0.1:65536", r#"udp:127.0.0.1:65536: "65536" is no port: 0 to 65535"#.into()),
            ("udp:127.0.0.1:0", "udp:127.0.0.1:0: port 0 is nobody's".into()),
            ("udp:::1:53", "udp:::1:53: an IPv6 address stands in brackets: udp:[::1]:53".into()),
            ("udp:[::1]:53,dest=x", r#"udp:[::1]:53: dest: "x" is none of socket, frame"#.into()),
            ("udp:[::1]:53,buffer=2g", "udp:[::1]:53: buffer: 2147483648 cannot be: 4k to 1g bytes".into()),
            ("udp:[::1]:53,ring=2", format!("udp:[::1]:53: {keys}")),
        ];
        for (spec, message) in cases {
            assert_eq!(open(spec, Direction::Send).unwrap_err().to_string(), message);
        }
        let error = open("udp:127.0.0.1:0,dest=socket", Direction::Receive).unwrap_err();
        assert_eq!(error.to_string(), r#"udp:127.0.0.1:0: dest: "socket" is none of frame"#);
    }

    #[test]
    fn of_port_0_becomes_one_that_its_name_tells() {
        for direction in [Direction::Receive, Direction::Both] {
            for host in ["127.0.0.1", "localhost"] {
                let name = open(&format!("udp:{host}:0,dest=frame"), direction).unwrap().device.name();
                let port =
                    name.strip_prefix(&format!("udp:{host}:")).and_then(|port| port.parse::<u16>().ok());
                assert!(port > Some(0), "{name}");
            }
        }
    }
}
