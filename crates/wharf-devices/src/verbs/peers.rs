//! `Peers`: the ends that frames go to, by the Ethernet addresses that name them.
//!
//! A peer is named by the specification, or learnt from what it sends. A frame goes to the peer that its destination address names,
//! else to the peer of the specification.

use super::address::{Mac, PeerAddress, mac_of};
use wharf_sys::verbs::{AddressHandle, Gid};

/// Peers that are known at once. Those that come later are not learnt: they are received from, and frames to them go to the peer of the
/// specification.
const PEERS_MAX: usize = 256;
/// Time between two questions to a peer.
pub(super) const ASK_NS: u64 = 1_000_000_000;
/// Time between two questions to a peer that frames wait for.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// Time that frames wait for the answer: three seconds, as for ARP (`mcast_solicit`, `retrans_time_ms`: arp(7)).
const WAIT_NS: u64 = 3_000_000_000;
/// Time without an answer after which a peer counts as unknown.
const STALE_NS: u64 = 5 * ASK_NS;

/// A way to a peer, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The peer at this place of the table.
    To(usize),
    /// The frame waits until the peer has answered.
    Waits,
    /// The frame fails.
    Failed(&'static str),
}

#[derive(Debug)]
struct Peer {
    gid: Gid,
    mac: Mac,
    /// `None` until it has answered, or sent.
    queue_pair: Option<u32>,
    /// Made when a frame is sent to it first.
    address: Option<AddressHandle>,
}

/// The peer of the specification, the first one of the table.
#[derive(Debug, Clone, Copy)]
struct Default {
    /// False if the specification has its queue pair.
    is_asked: bool,
    /// When it was last asked, and when it has last answered, on the host's clock.
    asked_ns: Option<u64>,
    heard_ns: u64,
    /// Since when frames wait for it, and when some were last given up: all that were offered at the same time are.
    waited_since_ns: Option<u64>,
    given_up_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Peers {
    table: Vec<Peer>,
    default: Option<Default>,
    /// The peer that was last received from.
    last: usize,
}

impl Peers {
    pub(super) fn new(peer: Option<PeerAddress>) -> Self {
        let mut made = Self { table: Vec::with_capacity(PEERS_MAX), default: None, last: 0 };
        if let Some(PeerAddress { gid, queue_pair }) = peer {
            let is_asked = queue_pair.is_none();
            made.default = Some(Default {
                is_asked,
                asked_ns: None,
                heard_ns: 0,
                waited_since_ns: None,
                given_up_ns: None,
            });
            made.table.push(Peer { gid, mac: mac_of(&gid), queue_pair, address: None });
        }
        made
    }

    /// Learns that the port with `gid` receives by `queue_pair`, at `now_ns`. Returns the Ethernet address that names it.
    #[inline]
    pub(super) fn learn(&mut self, gid: &Gid, queue_pair: u32, now_ns: u64) -> Mac {
        match self.table.get(self.last) {
            Some(last) if last.gid == *gid && last.queue_pair == Some(queue_pair) => last.mac,
            _ => self.heard(gid, queue_pair, now_ns),
        }
    }

    /// Does as [`Peers::learn`] for a peer that has named its queue pair in an answer: it is there.
    #[inline(never)]
    pub(super) fn heard(&mut self, gid: &Gid, queue_pair: u32, now_ns: u64) -> Mac {
        let at = self.table.iter().position(|peer| peer.gid == *gid);
        let Some(at) = at else {
            let mac = mac_of(gid);
            if self.table.len() < PEERS_MAX {
                self.last = self.table.len();
                self.table.push(Peer { gid: *gid, mac, queue_pair: Some(queue_pair), address: None });
            }
            return mac;
        };
        self.last = at;
        match &mut self.default {
            // The specification's word stands.
            Some(default) if at == 0 && !default.is_asked => {}
            Some(default) if at == 0 => {
                (default.heard_ns, default.waited_since_ns) = (now_ns, None);
                self.table[at].queue_pair = Some(queue_pair);
            }
            _ => self.table[at].queue_pair = Some(queue_pair),
        }
        self.table[at].mac
    }

    /// Returns the peer to be asked for its queue pair at `now_ns`, if one is: once a second, or sooner while frames wait for it.
    #[inline]
    pub(super) fn next_to_ask(&mut self, now_ns: u64) -> Option<Gid> {
        let default = self.default.as_mut().filter(|default| default.is_asked)?;
        let every_ns = if default.waited_since_ns.is_some() { ASK_AGAIN_NS } else { ASK_NS };
        if default.asked_ns.is_some_and(|asked_ns| now_ns.saturating_sub(asked_ns) < every_ns) {
            return None;
        }
        default.asked_ns = Some(now_ns);
        // One that does not answer any more has gone, or has another queue pair.
        if now_ns.saturating_sub(default.heard_ns) > STALE_NS {
            self.table[0].queue_pair = None;
        }
        Some(self.table[0].gid)
    }

    /// Returns true while frames wait for an answer.
    pub(super) fn is_waited_for(&self) -> bool {
        self.default.is_some_and(|default| default.waited_since_ns.is_some())
    }

    /// Returns the way of a frame to `destination` at `now_ns`; `make` makes an address handle to a GID.
    #[inline]
    pub(super) fn route(
        &mut self, destination: &[u8], now_ns: u64, make: impl FnOnce(&Gid) -> Option<AddressHandle>,
    ) -> Route {
        let named = self.table.iter().position(|peer| peer.mac == destination && peer.queue_pair.is_some());
        let at = match (named, &mut self.default) {
            (Some(at), _) => at,
            (None, None) => return Route::Failed("unresolved"),
            (None, Some(default)) if self.table[0].queue_pair.is_none() => {
                if default.given_up_ns == Some(now_ns) {
                    return Route::Failed("unresolved");
                }
                let since_ns = *default.waited_since_ns.get_or_insert(now_ns);
                if now_ns.saturating_sub(since_ns) < WAIT_NS {
                    return Route::Waits;
                }
                (default.waited_since_ns, default.given_up_ns) = (None, Some(now_ns));
                return Route::Failed("unresolved");
            }
            (None, Some(_)) => 0,
        };
        let peer = &mut self.table[at];
        if peer.address.is_none() {
            peer.address = make(&peer.gid);
        }
        if peer.address.is_some() { Route::To(at) } else { Route::Failed("unresolved") }
    }

    /// Returns the address handle and the queue pair of the peer at `at`, to which [`Peers::route`] has led.
    #[inline]
    pub(super) fn way(&self, at: usize) -> Option<(&AddressHandle, u32)> {
        let peer = self.table.get(at)?;
        Some((peer.address.as_ref()?, peer.queue_pair?))
    }
}
