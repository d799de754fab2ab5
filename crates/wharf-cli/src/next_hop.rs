//! `net:KIND`: a device of a kind on the interface that the kernel's routes name for `--dst`, with the source
//! address, the MACs and the VLAN tag that its packets need.

use crate::args::SendArgs;
use crate::output::note;
use crate::route::{mac_text, name_of};
use crate::usage;
use anyhow::{Context, anyhow, bail};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wharf_core::device::DeviceError;
use wharf_devices::doctor::{Finding, Weight};
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Kind, Place};
use wharf_net::{Asker, Exit, Hop, Mac, Mirror, Neighbour, Query};

/// The kernel asks a neighbour three times, a second apart.
const PATIENCE: Duration = Duration::from_secs(4);
const VLAN: u16 = 0x8100;

/// The `net` kind: a word for another device, which `send` finds before it opens one.
pub(crate) static KIND: Kind = Kind {
    place: Place::Device("KIND"),
    needs: "CAP_NET_ADMIN, if the neighbour is to be asked for, and what KIND needs",
    ..Kind::new(
        "net",
        "net:KIND",
        "for `send --dst`: the interface, MACs, source and VLAN of the kernel's route (KIND: xdp, packet)",
        |spec, _| {
            let what = "is for `wharf send --dst ADDRESS`: name the interface here".into();
            Err(DeviceError::Unsupported { device: spec.to_string(), what })
        },
    )
};

/// Returns the arguments with the device that `net:KIND` stands for, if it is asked for.
pub(crate) fn found(mut args: SendArgs, registry: &Registry) -> anyhow::Result<SendArgs> {
    if args.to.kind().name != KIND.name {
        return Ok(args);
    }
    let Some(to) = args.dst else {
        return Err(usage(format!("{}: wants --dst, the address that packets go to", args.to)));
    };
    if args.mac.is_some() || args.vlan.is_some() {
        return Err(usage(format!("{}: the route says what --mac and --vlan would", args.to)));
    }
    let mut query = Query::to(to);
    if let Some(from) = args.src {
        query = query.from(from);
    }
    let (hop, mac, interface) = resolved(&query)?;
    let source_mac = hop.source_mac.ok_or_else(|| anyhow!("{to}: {interface} has no MAC"))?;
    args.vlan = match hop.tags {
        [None, None] => None,
        [Some(tag), None] if tag.protocol == VLAN => Some(tag.id),
        _ => bail!("{to}: the route goes by two VLAN tags, or by one of a provider: give --to and --vlan"),
    };
    let text = format!("{}:{interface}", args.to.place());
    args.to = registry.parse(&text).map_err(|error| usage(format!("net: {error}")))?;
    args.src = args.src.or(hop.source);
    args.mac = Some([source_mac, mac]);
    let by = hop.gateway.map_or(String::new(), |gateway| format!(", by {gateway}"));
    let source = args.src.map_or(String::new(), |source| format!(", from {source}"));
    note(&format!("{to}: {text}{by} ({}){source}", mac_text(mac)));
    Ok(args)
}

/// Returns what is not followed of the kernel's next hops, for devices that they lead out by.
pub(crate) fn not_followed(spec: &DeviceSpec) -> Option<Finding> {
    if !matches!(spec.kind().place, Place::Interface(_)) {
        return None;
    }
    let is_on = |of: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{of}/ignore_routes_with_linkdown");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    };
    let (weight, here) = match is_on("all") || is_on(spec.place()) {
        true => (Weight::Hint, "; set here: ignore_routes_with_linkdown, which is not followed either"),
        false => (Weight::Fact, ""),
    };
    let what = format!(
        "next hops (--route, net:, wharf route get) are the kernel's, but for MPLS and segment routing, IPv6 routes for some sources, address labels, redirects, resilient groups, bridges that filter VLANs, tunnels in UDP, and the hash of multipath routes and bonds{here}"
    );
    Some(Finding { subject: "next-hop", weight, what, mend: None, data: Vec::new() })
}

/// Returns the hop, its neighbour's MAC, and the name of the interface that it leaves by. Waits for the
/// neighbour.
fn resolved(query: &Query) -> anyhow::Result<(Hop, Mac, String)> {
    let to: IpAddr = query.destination();
    let mut mirror = Mirror::open().context("cannot read the kernel's routes")?;
    let (tables, end) = (mirror.tables(), Instant::now() + PATIENCE);
    let mut asker = None;
    loop {
        let hop = tables.lookup(query).map_err(|none| anyhow!("{to}: {none}"))?;
        match &hop.exit {
            Exit::Host => bail!("{to}: is this host"),
            Exit::Port(port) => {
                let interface = name_of(*port, &tables);
                if let Some(mac) = hop.neighbour.mac() {
                    return Ok((hop, mac, interface));
                }
                if hop.neighbour == Neighbour::NotNeeded {
                    bail!(
                        "{to}: {interface} has no MACs, which the frames of `send` have: name another device by --to"
                    );
                }
            }
            // A bridge learns where its neighbour is as it answers.
            Exit::Flood(_) => {}
            _ => bail!(
                "{to}: the route leads into a tunnel, or by a way that is not known: `wharf route get {to}`"
            ),
        }
        let neighbour = hop.gateway.unwrap_or(to);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("{neighbour}: the neighbour on {} does not answer", name_of(hop.interface, &tables));
        }
        match &mut asker {
            None => asker = Some(Asker::open()?),
            Some(_) => mirror.wait(left.min(Duration::from_millis(100)), None)?,
        }
        if let Some(asker) = &mut asker {
            asker.ask(&hop, to).with_context(|| format!("cannot ask the kernel for {neighbour}"))?;
        }
        mirror.turn()?;
    }
}
