//! The way of a frame below the interface that the route names: VLANs, bonds, bridges, macvlans and tunnels.

use crate::hop::{Exit, Hop, NoHop, Tag, Tunnel, TunnelHeader};
use crate::kernel::{ELSEWHERE, Layer, Link, Mac};
use crate::query::Query;
use crate::state::Snapshot;

/// Interfaces on top of each other that are followed.
pub(crate) const LAYERS_MAX: usize = 8;
/// Modes of a bond: active-backup, and those that balance by the MACs of their ports (tlb, alb), where the
/// active port alone has the bond's own.
const ACTIVE: [u8; 3] = [1, 5, 6];
const BROADCAST: u8 = 3;

impl Snapshot {
    /// Says how the frame of a hop leaves.
    pub(crate) fn leave(&self, hop: &mut Hop, link: &Link, query: &Query, tunnels: u8) {
        let (mut at, mut tags) = (link, 0);
        for _ in 0..LAYERS_MAX {
            let below = match &at.layer {
                Layer::None if at.is_loopback() => return hop.exit = Exit::Host,
                Layer::None => return hop.exit = Exit::Port(at.index),
                Layer::Vlan { protocol, id } => {
                    if tags == hop.tags.len() {
                        return hop.exit = Exit::Unsupported("more than two VLAN tags");
                    }
                    // The interface on top adds the inner tag.
                    hop.tags.rotate_right(1);
                    hop.tags[0] = Some(Tag { protocol: *protocol, id: *id });
                    tags += 1;
                    at.lower
                }
                Layer::Macvlan => at.lower,
                Layer::Bond { mode: BROADCAST, .. } => {
                    return hop.exit = Exit::Unsupported("a bond that sends by every port");
                }
                Layer::Bond { mode, active } => self.bond_port(at, *mode, *active, query),
                Layer::Bridge => match self.bridge_port(at, hop.neighbour.mac()) {
                    Ok(port) => port,
                    Err(exit) => return hop.exit = exit,
                },
                Layer::Vrf { .. } => return hop.exit = Exit::Host,
                Layer::Vxlan { .. } | Layer::Tunnel { .. } => {
                    return hop.exit = self.tunnel(at, hop, query, tunnels);
                }
                Layer::Unsupported(why) => return hop.exit = Exit::Unsupported(why),
            };
            match self.links.get(&below) {
                Some(link) => at = link,
                None => return hop.exit = Exit::Unsupported(ELSEWHERE),
            }
        }
        hop.exit = Exit::Unsupported("too many interfaces on top of each other");
    }

    /// True if the way of a frame by an interface depends on its flow: through a tunnel, or a bond that
    /// hashes.
    pub(crate) fn spreads(&self, interface: u32, layers: usize) -> bool {
        let Some(link) = self.links.get(&interface).filter(|_| layers > 0) else { return false };
        match link.layer {
            Layer::Vlan { .. } | Layer::Macvlan => self.spreads(link.lower, layers - 1),
            Layer::Bond { mode, active } => !ACTIVE.contains(&mode) || active == 0,
            Layer::Bridge => {
                let mut ports = self.links.values().filter(|port| port.master == interface);
                ports.any(|port| self.spreads(port.index, layers - 1))
            }
            Layer::Vxlan { .. } | Layer::Tunnel { .. } => true,
            _ => false,
        }
    }

    /// Returns the port of a bond: the active one, else one of those that may transmit, by the flow.
    fn bond_port(&self, bond: &Link, mode: u8, active: u32, query: &Query) -> u32 {
        if ACTIVE.contains(&mode) && active != 0 {
            return active;
        }
        let ports = self
            .links
            .values()
            .filter(|port| port.master == bond.index && port.is_up() && port.is_active_port);
        let mut ports: Vec<_> = ports.map(|port| port.index).collect();
        ports.sort_unstable();
        let at = query.path_hash() as usize % ports.len().max(1);
        ports.get(at).copied().unwrap_or(0)
    }

    fn bridge_port(&self, bridge: &Link, mac: Option<Mac>) -> Result<u32, Exit> {
        let entry = mac.and_then(|mac| self.fdb.get(&(bridge.index, mac)));
        match entry {
            Some(entry) if entry.is_own => Err(Exit::Host),
            Some(entry) => Ok(entry.interface),
            None => Err(Exit::Flood(bridge.index)),
        }
    }

    /// Returns the outer header of a tunnel and its next hop.
    fn tunnel(&self, link: &Link, hop: &Hop, query: &Query, tunnels: u8) -> Exit {
        let (header, remote, local, below, mark) = match &link.layer {
            Layer::Vxlan { id, port, remote, local, link: below } => {
                let learnt = hop.neighbour.mac().and_then(|mac| self.fdb.get(&(link.index, mac)));
                let remote = learnt.and_then(|entry| entry.remote).or(*remote);
                (TunnelHeader::Vxlan { id: *id, port: *port }, remote, *local, *below, 0)
            }
            Layer::Tunnel { kind, remote, local, key, mark, link: below } => {
                let header = match &**kind {
                    "gre" | "ip6gre" => TunnelHeader::Gre { key: *key, is_ethernet: false },
                    "gretap" | "ip6gretap" => TunnelHeader::Gre { key: *key, is_ethernet: true },
                    _ => TunnelHeader::Ip,
                };
                let peer = hop.gateway.unwrap_or_else(|| query.destination());
                (header, remote.or(Some(peer).filter(|_| !link.has_macs())), *local, *below, *mark)
            }
            _ => return Exit::Port(link.index),
        };
        let Some(destination) = remote else { return Exit::Unsupported("a tunnel to several ends") };
        let mut outer = Query::to(destination).output(below).mark(mark).flow(query.path_hash());
        if let Some(local) = local {
            outer = outer.from(local);
        }
        let hop = match tunnels.checked_sub(1) {
            Some(tunnels) => self.look_within(&outer, tunnels),
            None => Err(NoHop::Unsupported("more tunnels than two in each other")),
        };
        Exit::Tunnel(Box::new(Tunnel { header, destination, hop }))
    }
}

#[cfg(test)]
pub(crate) mod tests;
