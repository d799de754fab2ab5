//! The source address of a packet that has none: of the route, else by `inet_select_addr` for IPv4, by RFC
//! 6724 for IPv6.

use crate::kernel::{Address, RouteHop};
use crate::lookup::{Path, shares};
use crate::query::Query;
use crate::state::Snapshot;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

const SECONDARY: u32 = 1;
const TEMPORARY: u32 = 1;
const OPTIMISTIC: u32 = 4;
const HOME: u32 = 0x10;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;

impl Snapshot {
    /// Returns the source for a packet by this path. Forwarded packets have one already.
    pub(crate) fn source(&self, query: &Query, path: &Path) -> Option<IpAddr> {
        if query.input != 0 {
            return None;
        }
        let vrf = |interface| self.vrf_of(interface).map(|(vrf, _)| vrf);
        match (vrf(query.output), query.destination()) {
            // The way leads out of the VRF: the address is the VRF's own.
            (Some(own), IpAddr::V4(_)) if vrf(path.source_of) != Some(own) => {
                self.address_v4(own, None, SCOPE_LINK)
            }
            (Some(own), to) if vrf(path.source_of) != Some(own) => self.address_v6(own, to),
            _ if path.metrics.source.is_some() => path.metrics.source,
            (_, IpAddr::V4(_)) => {
                self.address_v4(path.source_of, path.hop.gateway.filter(IpAddr::is_ipv4), path.scope)
            }
            (_, to) => self.address_v6(path.source_of, to),
        }
    }

    /// True for a gateway of IPv4 that is an address of its interface.
    pub(crate) fn is_own_gateway(&self, hop: &RouteHop) -> bool {
        let is_own = |gateway| self.addresses_of(hop.interface).iter().any(|it| it.local == gateway);
        hop.gateway.is_some_and(|gateway| gateway.is_ipv4() && is_own(gateway))
    }

    fn addresses_of(&self, interface: u32) -> &[Address] {
        self.addresses.get(&interface).map_or(&[], Vec::as_slice)
    }

    /// `inet_select_addr`: the first primary address of the interface, rather one of the gateway's subnet;
    /// else the first of another one.
    pub(crate) fn address_v4(&self, interface: u32, gateway: Option<IpAddr>, scope: u8) -> Option<IpAddr> {
        let primary = |address: &&Address| address.local.is_ipv4() && address.flags & SECONDARY == 0;
        let own = || {
            self.addresses_of(interface).iter().filter(primary).filter(|it| it.scope.min(SCOPE_HOST) <= scope)
        };
        let near = gateway.and_then(|gateway| own().find(|it| shares(it.peer, gateway, it.len)));
        if let Some(found) = near.or_else(|| own().next()) {
            return Some(found.local);
        }
        let elsewhere = |index: u32| {
            let mut all = self.addresses_of(index).iter().filter(primary);
            all.find(|it| it.scope != SCOPE_LINK && it.scope <= scope).map(|it| it.local)
        };
        let vrf = self.vrf_of(interface).map(|(vrf, _)| vrf);
        let others = self.others(vrf);
        vrf.and_then(elsewhere).or_else(|| others.into_iter().find_map(elsewhere))
    }

    /// Returns the interfaces of a VRF and itself, or those of none, in the order in which they were made.
    fn others(&self, vrf: Option<u32>) -> Vec<u32> {
        let mut others: Vec<_> = self.addresses.keys().copied().collect();
        others.retain(|index| self.vrf_of(*index).map(|(vrf, _)| vrf) == vrf);
        others.sort_unstable();
        others
    }

    /// RFC 6724, section 5, as `ipv6_dev_get_saddr` orders it. Within a VRF the interface's own address comes
    /// first of equals, and then the VRF's. `outgoing`: 0 for none.
    pub(crate) fn address_v6(&self, outgoing: u32, to: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(to) = to else { return None };
        let vrf = self.vrf_of(outgoing).map(|(vrf, _)| vrf);
        let mut interfaces: Vec<_> = [outgoing].into_iter().filter(|_| vrf.is_some()).chain(vrf).collect();
        if outgoing != 0 && (to.is_multicast() || to.is_unicast_link_local()) {
            interfaces = vec![outgoing];
        } else {
            interfaces.extend(self.others(vrf));
        }
        let all = interfaces.iter().flat_map(|index| self.addresses_of(*index).iter().map(|it| (*index, it)));
        let prefers = |index| self.links.get(&index).is_some_and(|link| link.prefers_temporary);
        let usable = all.filter_map(|(index, it)| Candidate::new(it, index == outgoing, prefers(index)));
        let best = usable.reduce(|best, next| if next.is_better(&best, to) { next } else { best });
        best.map(|found| found.address.into())
    }
}

/// An address that may be a source.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    address: Ipv6Addr,
    len: u8,
    flags: u32,
    is_outgoing: bool,
    prefers_temporary: bool,
}

impl Candidate {
    fn new(address: &Address, is_outgoing: bool, prefers_temporary: bool) -> Option<Self> {
        let IpAddr::V6(local) = address.local else { return None };
        let is_ready = address.flags & TENTATIVE == 0 || address.flags & OPTIMISTIC != 0;
        is_ready.then_some(Self {
            address: local,
            len: address.len,
            flags: address.flags,
            is_outgoing,
            prefers_temporary,
        })
    }

    /// Compares by one rule after the other. An equal one is not better.
    fn is_better(&self, best: &Self, to: Ipv6Addr) -> bool {
        let by = |score: &dyn Fn(&Self) -> i32| score(self).cmp(&score(best));
        let has = |it: &Self, flags: u32| i32::from(it.flags & flags != 0);
        let scope = i32::from(scope_of(to));
        let fits = |it: &Self| match i32::from(scope_of(it.address)) {
            own if own >= scope => -own,
            own => own - 128,
        };
        let matching = |it: &Self| {
            let same = (it.address.to_bits() ^ to.to_bits()).leading_zeros();
            same.min(u32::from(it.len)) as i32
        };
        let is_orchid = |address| label_of(address) == ORCHID;
        let order = by(&|it| i32::from(it.address == to))
            .then_with(|| by(&fits))
            .then_with(|| {
                by(&|it| i32::from(is_preferred(it.address)).max(1 - has(it, DEPRECATED | OPTIMISTIC)))
            })
            .then_with(|| by(&|it| has(it, HOME)))
            .then_with(|| by(&|it| i32::from(it.is_outgoing)))
            .then_with(|| by(&|it| i32::from(label_of(it.address) == label_of(to))))
            .then_with(|| by(&|it| i32::from((it.flags & TEMPORARY != 0) == it.prefers_temporary)))
            .then_with(|| by(&|it| i32::from(is_orchid(it.address) == is_orchid(to))))
            .then_with(|| by(&matching))
            .then_with(|| by(&|it| -has(it, OPTIMISTIC)));
        order == Ordering::Greater
    }
}

/// Returns the scope of an address (RFC 4291): 2 link, 5 site, 14 global.
fn scope_of(address: Ipv6Addr) -> u8 {
    match address.segments()[0] {
        first if first >> 8 == 0xff => (first & 15) as u8,
        first if first & 0xffc0 == 0xfe80 => 2,
        first if first & 0xffc0 == 0xfec0 => 5,
        _ if address.is_loopback() => 2,
        _ => 14,
    }
}

/// True for a loopback address and those that stand for one of IPv4: they are never to be avoided
/// (`ipv6_saddr_preferred`).
fn is_preferred(address: Ipv6Addr) -> bool {
    matches!(label_of(address), 0 | 3 | 4)
}

/// The label of overlay addresses (ORCHID, RFC 4843).
const ORCHID: u8 = 7;

/// The kernel's table of labels (`ip addrlabel`), which an administrator may change: that is not followed.
fn label_of(address: Ipv6Addr) -> u8 {
    let bits = address.to_bits();
    let in_prefix = |prefix: u128, len: u32| (bits ^ prefix).leading_zeros() >= len;
    match () {
        () if bits == 1 => 0,
        () if in_prefix(0xffff << 32, 96) => 4,
        () if in_prefix(0, 96) => 3,
        () if in_prefix(0x2001 << 112, 32) => 6,
        () if in_prefix(0x2001_0010 << 96, 28) => ORCHID,
        () if in_prefix(0x2002 << 112, 16) => 2,
        () if in_prefix(0xfc << 120, 7) => 5,
        () => 1,
    }
}
