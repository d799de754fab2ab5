//! `Steering`: the flows that a receiver takes, as the key `steer` names them. The others stay with the host.

pub mod program;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use wharf_packet::{TCP, UDP};

/// Most flows of a key: the program looks at each in turn.
const FLOWS_MAX: usize = 64;

/// The frames that a receiver takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Steering {
    /// All.
    #[default]
    All,
    /// Those of any of these flows.
    Flows(Arc<[Flow]>),
}

/// Frames of one kind, by the headers behind up to two VLAN tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flow {
    /// To one of these ports, by the protocol of this number. Fragments have no port, and an IPv6 packet has one only directly behind its
    /// header.
    Port(u8, RangeInclusive<u16>),
    /// To an address that has so many leading bits in common with this one.
    Address(IpAddr, u8),
}

impl Steering {
    /// Reads `all`, or flows joined by `+`: `tcp:PORT`, `udp:PORT`, `udp:FIRST-LAST`, `ip:ADDRESS`, `ip:ADDRESS/PREFIX`.
    ///
    /// # Errors
    /// The text is none of these: the error says what is.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let flows = text.split('+').map(Flow::parse).collect::<Result<Vec<_>, _>>()?;
        if flows.len() > FLOWS_MAX {
            return Err(format!("steer: {} flows, of {FLOWS_MAX} at most", flows.len()));
        }
        Ok(Self::Flows(flows.into()))
    }
}

impl Flow {
    fn parse(text: &str) -> Result<Self, String> {
        let flow = text.split_once(':').and_then(|(kind, value)| match kind {
            "tcp" => ports(value).map(|ports| Self::Port(TCP, ports)),
            "udp" => ports(value).map(|ports| Self::Port(UDP, ports)),
            "ip" => addresses(value),
            _ => None,
        });
        let forms = "all, or tcp:PORT, udp:FIRST-LAST, ip:ADDRESS/PREFIX, joined by +";
        flow.ok_or_else(|| format!("steer: \"{}\" cannot be: {forms}", text.escape_debug()))
    }
}

/// Ports that the kernel gives to connections of its host's own, by default (`ip_local_port_range`).
const LOCAL_PORTS: RangeInclusive<u16> = 32768..=60999;

impl Flow {
    /// True for frames of TCP to this address, if it is known, and port.
    pub(super) fn takes_tcp(&self, to: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::Port(protocol, ports) => *protocol == TCP && ports.contains(&port),
            Self::Address(..) => to.is_some_and(|to| self.takes_address(to)),
        }
    }

    /// True if all frames to this address are of the flow.
    pub(super) fn takes_address(&self, to: IpAddr) -> bool {
        match (self, to) {
            (Self::Address(IpAddr::V4(net), bits), IpAddr::V4(to)) => {
                (net.to_bits() ^ to.to_bits()).leading_zeros() >= u32::from(*bits)
            }
            (Self::Address(IpAddr::V6(net), bits), IpAddr::V6(to)) => {
                (net.to_bits() ^ to.to_bits()).leading_zeros() >= u32::from(*bits)
            }
            _ => false,
        }
    }

    /// True if the answers to connections of the host's own, or all frames of an IP version, are of the flow.
    pub(super) fn takes_answers(&self) -> bool {
        match self {
            Self::Port(_, ports) => ports.start() <= LOCAL_PORTS.start() && LOCAL_PORTS.end() <= ports.end(),
            Self::Address(_, bits) => *bits == 0,
        }
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = first.parse().ok()?..=last.parse().ok()?;
    (!ports.is_empty()).then_some(ports)
}

fn addresses(text: &str) -> Option<Flow> {
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(bits), |prefix| prefix.parse().ok())?;
    (prefix <= bits).then_some(Flow::Address(address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_joined_by_plus() {
        let read = Steering::parse("udp:4433+tcp:80-90+ip:10.1.0.0/16+ip:2001:db8::1").unwrap();
        let flows = [
            Flow::Port(UDP, 4433..=4433),
            Flow::Port(TCP, 80..=90),
            Flow::Address("10.1.0.0".parse().unwrap(), 16),
            Flow::Address("2001:db8::1".parse().unwrap(), 128),
        ];
        assert_eq!(read, Steering::Flows(flows.into()));
        assert_eq!(Steering::parse("all").unwrap(), Steering::All);
    }

    #[test]
    fn a_flow_takes_a_connection_to_its_port_or_address() {
        let takes = |flow: &str, to: Option<&str>| {
            let to = to.map(|to| to.parse().unwrap());
            Flow::parse(flow).unwrap().takes_tcp(to, 22)
        };
        for flow in ["tcp:22", "tcp:1-22", "ip:10.1.2.3", "ip:10.0.0.0/8", "ip:0.0.0.0/0"] {
            assert!(takes(flow, Some("10.1.2.3")), "{flow}");
        }
        for flow in ["udp:22", "tcp:23-90", "ip:10.1.2.2", "ip:11.0.0.0/8", "ip:::/0"] {
            assert!(!takes(flow, Some("10.1.2.3")), "{flow}");
        }
        assert!(
            takes("ip:fd00::/16", Some("fd00::9")) && takes("tcp:22", None) && !takes("ip:10.0.0.0/8", None)
        );
    }

    #[test]
    fn a_flow_of_all_ports_or_addresses_takes_the_answers_to_the_host() {
        let takes = |flow: &str| Flow::parse(flow).unwrap().takes_answers();
        for flow in ["tcp:1-65535", "udp:1024-61000", "ip:0.0.0.0/0", "ip:::/0"] {
            assert!(takes(flow), "{flow}");
        }
        for flow in ["tcp:22", "tcp:1-32768", "udp:40000-50000", "ip:10.0.0.0/8"] {
            assert!(!takes(flow), "{flow}");
        }
    }

    #[test]
    fn what_is_no_flow_is_refused_with_those_that_are() {
        for text in [
            "",
            "+",
            "udp",
            "udp:",
            "udp:65536",
            "udp:9-8",
            "udp:-1",
            "tcp:1-",
            "ip:",
            "ip:10.0.0.0/33",
            "ip:10.0.0",
            "ip:::1/129",
            "sctp:9",
            "udp:9+",
            "all+udp:9",
            "udp:9 ",
            "UDP:9",
        ] {
            let fault = Steering::parse(text).unwrap_err();
            assert!(fault.starts_with("steer: ") && fault.contains("udp:FIRST-LAST"), "{text}: {fault}");
        }
        let many = vec!["udp:9"; FLOWS_MAX + 1].join("+");
        assert!(Steering::parse(&many).unwrap_err().contains("65 flows, of 64"));
    }
}
