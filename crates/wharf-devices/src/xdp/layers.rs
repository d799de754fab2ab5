//! Interfaces above and below the one that is used: VLANs, bonds, macvlans, bridges.
//!
//! None of their drivers does without copies. All receive in the kernel's generic path, where frames come with the upper interface's own
//! name; a bond takes programs for its ports as well, whose frames no socket on the bond gets (`xsk_rcv_check` in net/xdp/xsk.c compares
//! the port with the bond).

use crate::doctor::finding::Finding;
use crate::doctor::interface::{Examined, name_of};
use crate::interfaces::HostInterface;
use crate::link::Link;
use wharf_sys::netlink::Netlink;

/// True if `link` is a bond.
pub(super) fn is_bond(link: &Link) -> bool {
    let described = Netlink::open().and_then(|netlink| netlink.describe(link.interface.index));
    described.is_ok_and(|info| info.kind.as_deref() == Some("bond"))
}

/// Returns the findings on what is below and above an interface.
pub(super) fn findings(examined: &Examined) -> Vec<Finding> {
    below(examined).into_iter().chain(above(examined)).collect()
}

fn below(examined: &Examined) -> Option<Finding> {
    let (name, info) = (&examined.name, &examined.info);
    let lower = info.lower.filter(|lower| *lower != examined.index).and_then(name_of);
    let on = lower.as_ref().map_or("another network namespace".into(), |lower| lower.clone());
    let finding = match info.kind.as_deref()? {
        "vlan" => {
            let id = info.vlan.unwrap_or_default();
            let what = format!(
                "{name} is VLAN {id} on {on}: the kernel adds and takes out the tag, and copies frames"
            );
            let finding = Finding::fact("below", what).with("vlan", u32::from(id));
            let direct = |lower: &String| {
                format!("to send without copies: xdp:{lower}, with tagged frames (--vlan {id})")
            };
            lower.iter().map(direct).fold(finding, Finding::mend)
        }
        "bond" => {
            let ports = ports(examined.index);
            let what = format!(
                "{name} is a bond of {}: the kernel chooses the port, and copies frames",
                ports.join(", ")
            );
            let specs: Vec<String> = ports.iter().map(|port| format!("xdp:{port}")).collect();
            let finding = Finding::fact("below", what).with("ports", ports.join(" "));
            if specs.is_empty() {
                finding
            } else {
                finding.mend(format!("without copies: {}", specs.join(", ")))
            }
        }
        kind @ ("macvlan" | "macvtap" | "ipvlan") => {
            Finding::fact("below", format!("{name} is a {kind} on {on}: the kernel copies frames"))
        }
        "bridge" => {
            let what = format!(
                "{name} is a bridge: xdp sends into it as this host does, and receives what is for this host"
            );
            Finding::fact("below", what).mend("to see what passes through: xdp: or packet: on its ports")
        }
        _ => return None,
    };
    Some(lower.map_or(finding.clone(), |lower| finding.with("lower", lower)))
}

fn above(examined: &Examined) -> Option<Finding> {
    let master = name_of(examined.info.master?)?;
    let name = &examined.name;
    let what = format!("{name} is a port of {master}: frames that xdp receives here do not get there");
    Some(Finding::fact("above", what).with("master", master))
}

/// Returns the names of the ports of interface `index`.
fn ports(index: i32) -> Vec<String> {
    let Ok(netlink) = Netlink::open() else { return Vec::new() };
    let is_port = |interface: &HostInterface| {
        let own = crate::doctor::interface::index_of(&interface.name);
        own.and_then(|own| netlink.describe(own).ok()).is_some_and(|info| info.master == Some(index))
    };
    HostInterface::all().into_iter().filter(is_port).map(|interface| interface.name).collect()
}
