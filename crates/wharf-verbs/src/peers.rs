//! `Peers`: the ends that frames go to, by the Ethernet addresses that name them.
//!
//! A peer is named by the specification, or learnt from what it sends. A frame goes to the peer that its destination address names,
//! else to the peer of the specification.

use super::address::{Mac, PeerAddress, is_queue_pair, mac_of};
use crate::ibverbs::{AddressHandle, Gid};

/// Peers that are known at once. A further one takes the place of the one that was heard longest ago, while no frame is on its way.
const PEERS_MAX: usize = 256;
/// Time between two questions to a peer.
pub(super) const ASK_NS: u64 = 1_000_000_000;
/// Time between two questions to a peer that frames wait for.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// Time that frames wait for the answer: three seconds, as for ARP (`mcast_solicit`, `retrans_time_ms`: arp(7)).
const WAIT_NS: u64 = 3_000_000_000;
/// Questions without an answer after which the queue pair of a peer counts as unknown.
const UNANSWERED_MAX: u32 = 5;
/// Time until a port whose Ethernet address was not found is looked for again; it doubles with each failure up to `BACKOFF_MAX_NS`. The
/// kernel looks for a second, for which frames wait.
const BACKOFF_NS: u64 = 2_000_000_000;
const BACKOFF_MAX_NS: u64 = 16_000_000_000;

/// A way to a peer, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The peer at this place of the table, and its queue pair.
    To(usize, u32),
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
    /// When it was last heard, on the host's clock.
    heard_ns: u64,
    /// When it was last asked whether a question in its name was its own.
    checked_ns: Option<u64>,
    /// Made when a frame is sent to it first; for the specification's peer before that.
    address: Option<AddressHandle>,
    /// True if `address` is to be made anew: its queue pair has changed, and its Ethernet address may have.
    is_address_old: bool,
    /// True while an address handle is asked for.
    is_asked: bool,
    /// Time before which no address handle is asked for, and the time added to it by the last failure.
    retry_ns: u64,
    backoff_ns: u64,
}

impl Peer {
    fn new(gid: Gid, queue_pair: Option<u32>, heard_ns: u64) -> Self {
        Self {
            gid,
            mac: mac_of(&gid),
            queue_pair,
            heard_ns,
            checked_ns: None,
            address: None,
            is_address_old: false,
            is_asked: false,
            retry_ns: 0,
            backoff_ns: 0,
        }
    }

    /// Notes that it receives by `queue_pair`. A peer with another one was started again, maybe on another adapter.
    fn hear(&mut self, queue_pair: u32, now_ns: u64) {
        self.heard_ns = now_ns;
        if self.queue_pair.replace(queue_pair) != Some(queue_pair) {
            (self.is_address_old, self.retry_ns, self.backoff_ns) = (true, 0, 0);
        }
    }

    /// Takes the address handle that was asked for, or notes at `now_ns` that the neighbour does not answer.
    fn take_address(&mut self, address: Option<AddressHandle>, now_ns: u64) {
        (self.address, self.is_address_old) = (address, false);
        self.backoff_ns = match &self.address {
            Some(_) => 0,
            None => (2 * self.backoff_ns).clamp(BACKOFF_NS, BACKOFF_MAX_NS),
        };
        self.retry_ns = now_ns + self.backoff_ns;
    }
}

/// State of the question for the queue pair of the specification's peer, as of a neighbour's entry (`NUD_INCOMPLETE`, `NUD_FAILED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// No frame waits.
    Idle,
    /// Frames wait since then, on the host's clock.
    Since(u64),
    /// It has not answered in time: frames fail until it answers.
    Failed,
}

/// The peer of the specification, the first one of the table.
#[derive(Debug, Clone, Copy)]
struct Default {
    /// False if the specification has its queue pair.
    is_asked: bool,
    /// When it was last asked, on the host's clock, and the number of questions since it has last answered.
    asked_ns: Option<u64>,
    unanswered: u32,
    waiting: Waiting,
}

#[derive(Debug)]
pub(super) struct Peers {
    table: Vec<Peer>,
    default: Option<Default>,
    /// The peer that was last received from.
    last: usize,
    /// Address handles that are asked for.
    asked: usize,
    /// True while frames on their way use address handles: none of these goes then.
    pub(super) is_in_use: bool,
}

impl Peers {
    pub(super) fn new(peer: Option<PeerAddress>) -> Self {
        let table = Vec::with_capacity(PEERS_MAX);
        let mut made = Self { table, default: None, last: 0, asked: 0, is_in_use: false };
        if let Some(PeerAddress { gid, queue_pair }) = peer {
            let is_asked = queue_pair.is_none();
            made.default = Some(Default { is_asked, asked_ns: None, unanswered: 0, waiting: Waiting::Idle });
            made.table.push(Peer::new(gid, queue_pair, 0));
        }
        made
    }

    /// Learns that the port with `gid` sends by `queue_pair`, at `now_ns`. Returns the Ethernet address that names it.
    #[inline]
    pub(super) fn learn(&mut self, gid: &Gid, queue_pair: u32, now_ns: u64) -> Mac {
        match self.table.get(self.last) {
            Some(last) if last.gid == *gid && last.queue_pair == Some(queue_pair) => last.mac,
            _ => self.heard(gid, queue_pair, now_ns),
        }
    }

    /// Works like [`Peers::learn`] for one that is not the last one, or has answered. The specification's peer is
    /// known by the specification, or its answers: it may send by another queue pair than it receives by, and others may ask in its name.
    #[inline(never)]
    pub(super) fn heard(&mut self, gid: &Gid, queue_pair: u32, now_ns: u64) -> Mac {
        match self.table.iter().position(|peer| peer.gid == *gid) {
            _ if !is_queue_pair(queue_pair) => return mac_of(gid),
            Some(0) if self.default.is_some() => {}
            Some(at) => {
                self.table[at].hear(queue_pair, now_ns);
                self.last = at;
            }
            None => self.insert(Peer::new(*gid, Some(queue_pair), now_ns)),
        }
        mac_of(gid)
    }

    /// Learns of a question that names `queue_pair` as that of the port with `gid`. Anyone may ask in a
    /// peer's name: one that is known by another queue pair stays as it is. Returns true if it is to be
    /// asked itself.
    pub(super) fn questioned(&mut self, gid: &Gid, queue_pair: u32, now_ns: u64) -> bool {
        let learnt = self.table.iter_mut().skip(usize::from(self.default.is_some()));
        match learnt.into_iter().find(|peer| peer.gid == *gid && peer.queue_pair != Some(queue_pair)) {
            Some(Peer { checked_ns, .. }) => {
                let is_due = checked_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= ASK_AGAIN_NS);
                *checked_ns = if is_due { Some(now_ns) } else { *checked_ns };
                is_due
            }
            None => {
                self.heard(gid, queue_pair, now_ns);
                false
            }
        }
    }

    /// Adds `peer`, in place of the one that was heard longest ago if there is no room.
    fn insert(&mut self, peer: Peer) {
        if self.table.len() < PEERS_MAX {
            self.last = self.table.len();
            self.table.push(peer);
        } else if !self.is_in_use {
            let learnt = usize::from(self.default.is_some())..PEERS_MAX;
            let Some(at) = learnt.min_by_key(|at| self.table[*at].heard_ns) else { return };
            self.table[at] = peer;
            self.last = at;
        }
    }

    /// Notes that the peer of the specification has answered at `now_ns`: it receives by `queue_pair`.
    pub(super) fn answered(&mut self, queue_pair: u32, now_ns: u64) {
        let Some(default) = self.default.as_mut().filter(|default| default.is_asked) else { return };
        (default.unanswered, default.waiting) = (0, Waiting::Idle);
        self.table[0].hear(queue_pair, now_ns);
    }

    /// Returns the peer to be asked for its queue pair at `now_ns`, if one is: once a second, or sooner while frames wait for it.
    #[inline]
    pub(super) fn next_to_ask(&mut self, now_ns: u64) -> Option<Gid> {
        let default = self.default.as_mut().filter(|default| default.is_asked)?;
        let every_ns = if matches!(default.waiting, Waiting::Since(_)) { ASK_AGAIN_NS } else { ASK_NS };
        if default.asked_ns.is_some_and(|asked_ns| now_ns.saturating_sub(asked_ns) < every_ns) {
            return None;
        }
        default.asked_ns = Some(now_ns);
        // One that does not answer any more has gone, or has another queue pair.
        if default.unanswered >= UNANSWERED_MAX {
            self.table[0].queue_pair = None;
        }
        default.unanswered = default.unanswered.saturating_add(1);
        Some(self.table[0].gid)
    }

    /// Asks for an address handle to the specification's peer by `ask`, before the first frame.
    pub(super) fn ask_early(&mut self, ask: impl FnOnce(&Gid)) {
        if self.default.is_some() {
            self.ask_for_address(0, ask);
        }
    }

    /// Asks for an address handle to the peer at `at` by `ask`, unless it was asked for.
    #[cold]
    fn ask_for_address(&mut self, at: usize, ask: impl FnOnce(&Gid)) {
        let peer = &mut self.table[at];
        if !std::mem::replace(&mut peer.is_asked, true) {
            self.asked += 1;
            ask(&peer.gid);
        }
    }

    /// Takes the address handle to the port with `gid` that was asked for, or notes at `now_ns` that there is none. A handle that frames on
    /// their way use stays, and is asked for again.
    pub(super) fn take_address(&mut self, gid: &Gid, address: Option<AddressHandle>, now_ns: u64) {
        self.asked = self.asked.saturating_sub(1);
        let is_in_use = self.is_in_use;
        let Some(peer) = self.table.iter_mut().find(|peer| peer.is_asked && peer.gid == *gid) else { return };
        peer.is_asked = false;
        if !is_in_use || peer.address.is_none() {
            peer.take_address(address, now_ns);
        }
    }

    /// Returns true while answers are awaited, for which frames may wait.
    pub(super) fn is_waited_for(&self) -> bool {
        self.asked > 0 || self.default.is_some_and(|default| matches!(default.waiting, Waiting::Since(_)))
    }

    /// Returns the way of a frame to `destination` at `now_ns`; `ask` asks for an address handle to a GID.
    #[inline]
    pub(super) fn route(&mut self, destination: &[u8], now_ns: u64, ask: impl FnOnce(&Gid)) -> Route {
        let named = self.table.iter().position(|peer| peer.mac == destination && peer.queue_pair.is_some());
        let at = match (named, &mut self.default) {
            (Some(at), _) => at,
            (None, None) => return Route::Failed("unresolved"),
            (None, Some(default)) if self.table[0].queue_pair.is_none() => return default.wait(now_ns),
            (None, Some(_)) => 0,
        };
        let peer = &self.table[at];
        let Some(queue_pair) = peer.queue_pair else { return Route::Failed("unresolved") };
        if peer.address.is_some() && !peer.is_address_old {
            return Route::To(at, queue_pair);
        }
        if peer.address.is_some() && self.is_in_use {
            // The old handle is replaced once no frame is sent by it: a sender that never pauses would keep it.
            return Route::Waits;
        }
        if !peer.is_asked && now_ns < peer.retry_ns {
            return Route::Failed("unresolved");
        }
        self.ask_for_address(at, ask);
        Route::Waits
    }

    /// Returns the address handle of the peer at `at`, to which [`Peers::route`] has led.
    #[inline]
    pub(super) fn address(&self, at: usize) -> Option<&AddressHandle> {
        self.table.get(at)?.address.as_ref()
    }
}

impl Default {
    /// Returns the way of a frame at `now_ns` while there is no answer.
    #[cold]
    fn wait(&mut self, now_ns: u64) -> Route {
        match self.waiting {
            Waiting::Idle => self.waiting = Waiting::Since(now_ns),
            Waiting::Since(since_ns) if now_ns.saturating_sub(since_ns) >= WAIT_NS => {
                self.waiting = Waiting::Failed;
            }
            _ => {}
        }
        if self.waiting == Waiting::Failed { Route::Failed("unresolved") } else { Route::Waits }
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::gid_of;
    use super::*;

    fn gid(text: &str) -> Gid {
        gid_of(text.parse().unwrap())
    }

    fn asked() -> Peers {
        Peers::new(Some(PeerAddress { gid: gid("10.9.0.2"), queue_pair: None }))
    }

    fn queue_pair_of(peers: &Peers, at: usize) -> Option<u32> {
        peers.table[at].queue_pair
    }

    #[test]
    fn answers_alone_say_the_queue_pair_of_a_peer_that_is_asked() {
        let mut peers = asked();
        peers.heard(&gid("10.9.0.2"), 5, 1);
        assert_eq!(queue_pair_of(&peers, 0), None);
        peers.answered(6, 2);
        peers.learn(&gid("10.9.0.2"), 5, 3);
        assert_eq!(queue_pair_of(&peers, 0), Some(6));
    }

    #[test]
    fn five_unanswered_questions_make_a_peer_unknown_and_idle_time_does_not() {
        let mut peers = asked();
        assert!(peers.next_to_ask(0).is_some());
        peers.answered(6, 1);
        for count in 1..=5 {
            assert!(peers.next_to_ask(count * 60 * ASK_NS).is_some());
            assert_eq!(queue_pair_of(&peers, 0), Some(6));
        }
        assert!(peers.next_to_ask(360 * ASK_NS).is_some());
        assert_eq!(queue_pair_of(&peers, 0), None);
    }

    #[test]
    fn silent_neighbour_is_looked_for_again_after_a_pause_that_grows() {
        let there = gid("10.9.0.2");
        let mut peers = Peers::new(Some(PeerAddress { gid: there, queue_pair: Some(7) }));
        let (mut looked, step) = (Vec::new(), 500_000_000);
        for at in 0..120 {
            let asked = looked.len();
            let route = peers.route(&[2; 6], at * step, |_| looked.push(at / 2));
            if looked.len() > asked {
                assert_eq!((route, peers.is_waited_for()), (Route::Waits, true));
                assert_eq!(peers.route(&[2; 6], at * step, |_| panic!("asked twice")), Route::Waits);
                peers.take_address(&there, None, at * step);
            } else {
                assert_eq!((route, peers.is_waited_for()), (Route::Failed("unresolved"), false));
            }
        }
        assert_eq!(looked, [0, 2, 6, 14, 30, 46]);
    }

    #[test]
    fn full_table_forgets_the_peer_heard_longest_ago_while_no_frame_is_on_its_way() {
        let mut peers = asked();
        let nth = |at: u32| gid_of(std::net::Ipv4Addr::from(0x0a09_0100 + at).into());
        for at in 0..300 {
            peers.heard(&nth(at), 100 + at, u64::from(at));
        }
        assert_eq!((peers.table.len(), peers.table[0].gid), (PEERS_MAX, gid("10.9.0.2")));
        assert!(peers.table.iter().any(|peer| peer.gid == nth(299)));
        assert!(!peers.table.iter().any(|peer| peer.gid == nth(0)));
        peers.is_in_use = true;
        peers.heard(&nth(400), 7, 1000);
        peers.heard(&nth(299), 1, 1000);
        assert!(!peers.table.iter().any(|peer| peer.gid == nth(400) || peer.queue_pair == Some(1)));
    }
}
