//! `wharf route get`: the next hop of a destination as `wharf-net` finds it, and what led there.

use crate::args::{RouteArgs, RouteCommand, RouteGetArgs};
use crate::output::{print, print_json};
use crate::usage;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::net::IpAddr;
use wharf_net::{Exit, Hop, Mac, Mirror, Neighbour, NoHop, Query, Tables, Tag, TunnelHeader};

/// Carries `wharf route` out.
pub(crate) fn route(args: &RouteArgs) -> anyhow::Result<()> {
    let RouteCommand::Get(args) = &args.command;
    let words = pairs(&args.words)?;
    let tables = Mirror::open().context("cannot read the kernel's routes")?.tables();
    let query = words.iter().try_fold(Query::to(args.to), |query, (name, value)| {
        with_word(query, name, value, &tables).map_err(|what| usage(format!("{name}: {what}")))
    })?;
    let found = tables.lookup(&query);
    match (&found, args.json) {
        (_, true) => print_json(&as_json(args, &found, &tables))?,
        (Ok(hop), false) => print(&as_text(args.to, hop, &tables))?,
        (Err(_), false) => {}
    }
    found.map(drop).map_err(|none| anyhow!("{}: {none}", args.to))
}

/// Returns the words as names and values.
fn pairs(words: &[String]) -> anyhow::Result<Vec<(&str, &str)>> {
    let (pairs, rest) = words.as_chunks::<2>();
    match rest {
        [] => Ok(pairs.iter().map(|[name, value]| (name.as_str(), value.as_str())).collect()),
        [name, ..] => Err(usage(format!("{name}: wants a value"))),
    }
}

/// Adds a word and its value to a query. The error says what is allowed.
fn with_word(query: Query, name: &str, value: &str, tables: &Tables) -> Result<Query, String> {
    let number = |most: u32| {
        let hex = value.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
        let parsed = hex.unwrap_or_else(|| value.parse()).ok().filter(|number| *number <= most);
        parsed.ok_or_else(|| format!("want a number up to {most}"))
    };
    let interface = || tables.interface_index(value).ok_or_else(|| format!("no interface {value}"));
    let port = || number(65535).map(|port| port as u16);
    Ok(match name {
        "from" => {
            let from: IpAddr = value.parse().map_err(|_| "want an IP address")?;
            let same = from.is_ipv4() == query.destination().is_ipv4();
            if same {
                query.from(from)
            } else {
                return Err("want an address of the destination's family".into());
            }
        }
        "iif" => query.input(interface()?),
        "oif" => query.output(interface()?),
        "mark" => query.mark(number(u32::MAX)?),
        "tos" => query.tos(number(255)? as u8),
        "uid" => query.user(number(u32::MAX)?),
        "ipproto" => match value {
            "tcp" => query.protocol(6),
            "udp" => query.protocol(17),
            _ => query.protocol(number(255)? as u8),
        },
        "sport" => query.source_port(port()?),
        "dport" => query.port(port()?),
        _ => return Err("want from, iif, oif, mark, tos, uid, ipproto, sport or dport".into()),
    })
}

fn as_text(to: IpAddr, hop: &Hop, tables: &Tables) -> String {
    let or_none = |address: Option<IpAddr>, none: &str| address.map_or(none.to_owned(), |it| it.to_string());
    let mac = match (hop.neighbour, hop.neighbour.mac()) {
        (Neighbour::Known { is_stale: true, .. }, Some(mac)) => format!("{}, stale", mac_text(mac)),
        (_, Some(mac)) => mac_text(mac),
        (neighbour, None) => word_of(neighbour).to_owned(),
    };
    let why = hop.why;
    let led = format!(
        "rule {}, table {}, {}/{}, metric {}, by {}",
        why.rule,
        table_name(why.table),
        why.prefix(to),
        why.prefix_len,
        why.metric,
        protocol_name(why.protocol)
    );
    let rows = [
        ("kind", format!("{:?}", hop.kind).to_lowercase()),
        ("interface", name_of(hop.interface, tables)),
        (
            "gateway",
            or_none(hop.gateway, if hop.exit == Exit::Host { "none" } else { "none: it is on the link" }),
        ),
        ("source", or_none(hop.source, "none")),
        ("mtu", format!("{} B", hop.mtu_bytes)),
        ("mac", mac),
        ("leaves", exit_text(hop, tables)),
        ("why", led),
    ];
    rows.map(|(name, value)| format!("{name:<10}{value}")).join("\n")
}

/// Says how a frame leaves, with what it gets in front.
fn exit_text(hop: &Hop, tables: &Tables) -> String {
    let tags = hop.tags.iter().flatten().map(|tag| format!(", VLAN {} ({:#06x})", tag.id, tag.protocol));
    let tags: String = tags.collect();
    match &hop.exit {
        Exit::Port(port) => format!("by {}{tags}", name_of(*port, tables)),
        Exit::Host => "to this host".into(),
        Exit::Flood(bridge) => format!("by all ports of {}{tags}", name_of(*bridge, tables)),
        Exit::Tunnel(tunnel) => {
            let outer =
                tunnel.hop.as_ref().map_or_else(ToString::to_string, |outer| exit_text(outer, tables));
            format!("inside {} to {}, {outer}", header_text(tunnel.header), tunnel.destination)
        }
        Exit::Unsupported(what) => format!("not known: {what}"),
        _ => "not known".into(),
    }
}

fn header_text(header: TunnelHeader) -> String {
    match header {
        TunnelHeader::Vxlan { id, port } => format!("VXLAN {id} (port {port})"),
        TunnelHeader::Gre { key, .. } => {
            format!("GRE{}", key.map_or(String::new(), |key| format!(" (key {key})")))
        }
        _ => "IP".into(),
    }
}

fn as_json(args: &RouteGetArgs, found: &Result<Hop, NoHop>, tables: &Tables) -> Value {
    let hop = match found {
        Ok(hop) => hop,
        Err(none) => return json!({ "destination": args.to, "error": none.to_string() }),
    };
    let tag = |tag: &Tag| json!({ "vlan": tag.id, "protocol": tag.protocol });
    let port = if let Exit::Port(port) = hop.exit { Some(name_of(port, tables)) } else { None };
    let why = hop.why;
    json!({
        "destination": args.to,
        "kind": format!("{:?}", hop.kind).to_lowercase(),
        "interface": name_of(hop.interface, tables),
        "gateway": hop.gateway,
        "source": hop.source,
        "mtu_bytes": hop.mtu_bytes,
        "mac": hop.neighbour.mac().map(mac_text),
        "neighbour": word_of(hop.neighbour),
        "source_mac": hop.source_mac.map(mac_text),
        "port": port,
        "tags": hop.tags.iter().flatten().map(tag).collect::<Vec<_>>(),
        "leaves": exit_text(hop, tables),
        "rule": why.rule,
        "table": why.table,
        "prefix": format!("{}/{}", why.prefix(args.to), why.prefix_len),
        "metric": why.metric,
        "protocol": why.protocol,
        "nexthop_id": why.object,
    })
}

pub(crate) fn name_of(interface: u32, tables: &Tables) -> String {
    tables.interface_name(interface).unwrap_or_else(|| interface.to_string())
}

pub(crate) fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn word_of(neighbour: Neighbour) -> &'static str {
    match neighbour {
        Neighbour::Known { is_stale: false, .. } => "known",
        Neighbour::Known { is_stale: true, .. } => "stale",
        Neighbour::Failed => "failed",
        Neighbour::NotNeeded => "none needed",
        _ => "unknown",
    }
}

fn table_name(table: u32) -> String {
    match table {
        255 => "local".into(),
        254 => "main".into(),
        253 => "default".into(),
        other => other.to_string(),
    }
}

/// Names who made a route (`/etc/iproute2/rt_protos`).
fn protocol_name(protocol: u8) -> String {
    let known = [
        (0, "none"),
        (2, "kernel"),
        (3, "boot"),
        (4, "static"),
        (9, "ra"),
        (16, "dhcp"),
        (186, "bgp"),
        (188, "ospf"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == protocol)
        .map_or(protocol.to_string(), |(_, name)| (*name).into())
}
