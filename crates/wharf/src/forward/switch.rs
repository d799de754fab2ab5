//! `Switch`: several ports, by threads of their own, and what is known of the stations at them.
//!
//! ```text
//!   port ── receive ──► Arrivals ──┬─► Sender ──► TxQueue (discipline, byte limit) ── transmit ──► port
//!                        MacTable ─┴─► Sender ──► TxQueue ── ...
//! ```
//! All ports share one memory, so that a frame goes on as it lies; only floods are copied.

mod arrivals;
mod frame;
mod table;
#[cfg(test)]
mod tests;

use super::pass::{Activity, Counts};
use super::{ForwardError, ForwardSettings};
use arrivals::{Arrivals, Budget, Changes, Copier, Out};
pub(super) use frame::Vlans;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;
pub(super) use table::PORTS_MAX;
use table::{AGE_TICKS, MacTable};
use wharf_core::gso::GsoLimiter;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::rx::Handler;
use wharf_core::sender::Spread;
use wharf_mem::batch::BATCH_FRAMES_MAX;

/// What the ports have in common.
#[derive(Debug)]
pub(super) struct Switch {
    table: MacTable,
    /// The tick that stations are seen at now.
    tick: AtomicU8,
    /// By number.
    members: RwLock<Vec<Option<Member>>>,
    /// True once a port has had stations of its own: without, no packet asks `members`.
    has_own: AtomicBool,
    /// Those who are told of members that come and go, with the numbers of their ports.
    handlers: Mutex<Vec<(usize, Weak<Changes>)>>,
}

/// One port, as the others see it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) vlans: Vlans,
    /// The queues that frames leave by; none if it only receives.
    pub(super) queues: Vec<TxQueue>,
    /// Stations that are at this port alone, in each VLAN.
    pub(super) own: Vec<[u8; 6]>,
}

impl Switch {
    pub(super) fn new() -> Arc<Self> {
        // Each state has a secret of its own.
        let secret = |n: u64| RandomState::new().hash_one(n);
        let table = MacTable::new([0, 1, 2, 3].map(secret));
        let (members, handlers) = (RwLock::default(), Mutex::default());
        let (tick, has_own) = (AtomicU8::new(0), AtomicBool::new(false));
        Arc::new(Self { table, tick, members, has_own, handlers })
    }

    fn members(&self) -> RwLockReadGuard<'_, Vec<Option<Member>>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a port: frames leave by it from now on.
    ///
    /// # Errors
    /// Those of senders.
    pub(super) fn join(
        &self, number: usize, member: Member, settings: &ForwardSettings,
    ) -> Result<(), ForwardError> {
        let mut told = Vec::new();
        for (at, changes) in wharf_mem::lock(&self.handlers).iter() {
            let name =
                self.members().get(*at).and_then(Option::as_ref).map_or(String::new(), |of| of.name.clone());
            if let Some(changes) = changes.upgrade()
                && let Some(out) = member.out(&name, settings)?
            {
                told.push((changes, out));
            }
        }
        // All of them, or none: one may find no memory for a sender.
        told.into_iter().for_each(|(changes, out)| changes.tell(number, Some(out)));
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let len = members.len().max(number + 1);
        members.resize_with(len, || None);
        let own = member.own.clone();
        self.has_own.fetch_or(!own.is_empty(), Relaxed);
        members[number] = Some(member);
        drop(members);
        // Until now they were permitted elsewhere.
        own.into_iter().for_each(|mac| self.table.forget_elsewhere(mac, number as u8));
        Ok(())
    }

    /// Takes a port off: frames leave by it no more, and its stations are forgotten.
    pub(super) fn leave(&self, number: usize) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.get_mut(number).and_then(Option::take);
        drop(members);
        let mut handlers = wharf_mem::lock(&self.handlers);
        handlers.retain(|(at, changes)| *at != number && changes.strong_count() > 0);
        handlers
            .iter()
            .filter_map(|(_, changes)| changes.upgrade())
            .for_each(|changes| changes.tell(number, None));
        self.forget(number);
    }

    /// Forgets the stations of a port.
    pub(super) fn forget(&self, number: usize) {
        self.table.forget(number as u8);
    }

    /// True if a station may be at `port`. It is asked of those that are not known there.
    fn may_be_at(&self, mac: &[u8], port: u8) -> bool {
        if !self.has_own.load(Relaxed) {
            return true;
        }
        let members = self.members();
        let has = |member: &Member| member.own.iter().any(|own| own == mac);
        let is_own = members.get(usize::from(port)).and_then(Option::as_ref).is_some_and(has);
        is_own || !members.iter().flatten().any(has)
    }

    /// Returns the port that alone has this station for its own.
    #[cold]
    fn pinned(&self, mac: &[u8]) -> Option<u8> {
        if !self.has_own.load(Relaxed) {
            return None;
        }
        let members = self.members();
        let has =
            |member: &Option<Member>| member.iter().any(|member| member.own.iter().any(|own| own == mac));
        let mut ports = (0..members.len()).filter(|&port| has(&members[port]));
        ports.next().filter(|_| ports.next().is_none()).map(|port| port as u8)
    }

    /// Has stations grow older: one that was not seen for some [`AGE_TICKS`] calls is forgotten.
    pub(super) fn grow_older(&self) {
        let tick = self.tick.load(Relaxed).wrapping_add(1);
        self.tick.store(tick, Relaxed);
        self.table.age(tick);
    }

    /// Returns the time between two such calls, for stations that are forgotten after `age`.
    pub(super) fn tick_of(age: Duration) -> Duration {
        age / u32::from(AGE_TICKS)
    }

    /// Returns the stations known at a port.
    pub(super) fn stations(&self, port: usize) -> u32 {
        self.table.stations(port as u8)
    }

    /// Makes the handler of one receive queue of port `at`, with memory of `pool`.
    ///
    /// # Errors
    /// Those of senders, and of a pool without a cache left.
    pub(super) fn handler(
        self: &Arc<Self>, at: usize, settings: &ForwardSettings, pool: &PagePool, clock: Arc<dyn Clock>,
        activity: &Arc<Activity>,
    ) -> Result<(Handler, Arc<Counts>), ForwardError> {
        let members = self.members();
        let own = members.get(at).and_then(Option::as_ref);
        let (name, vlans) = own.map_or_else(Default::default, |own| (own.name.clone(), own.vlans.clone()));
        let out = |(to, member): (usize, &Option<Member>)| match member {
            Some(member) if to != at => member.out(&name, settings),
            _ => Ok(None),
        };
        let outs = members.iter().enumerate().map(out).collect::<Result<Vec<_>, ForwardError>>()?;
        let (counts, changes) = (Arc::<Counts>::default(), Arc::<Changes>::default());
        wharf_mem::lock(&self.handlers).push((at, Arc::downgrade(&changes)));
        let mut arrivals = Arrivals {
            switch: self.clone(),
            port: at as u8,
            vlans,
            outs,
            changes,
            budget: Budget::new(settings.flood_pps),
            clock,
            copier: Copier {
                writer: Default::default(),
                memory: pool.cache(&format!("copies from {name}"))?,
            },
            activity: activity.clone(),
            counts: counts.clone(),
        };
        Ok((Box::new(move |burst| arrivals.pass(burst)), counts))
    }
}

impl Member {
    /// Makes the way out by it for what arrives at the port called `from`, if it sends.
    fn out(&self, from: &str, settings: &ForwardSettings) -> Result<Option<Out>, ForwardError> {
        let Some(first) = self.queues.first() else { return Ok(None) };
        let senders = self.queues.iter().map(|queue| queue.sender(&format!("from {from}")));
        let limiter = settings.longest_bytes.map(|bytes| GsoLimiter::new(first.pool(), bytes));
        Ok(Some(Out {
            vlans: self.vlans.clone(),
            by: Spread::new(senders.collect::<Result<_, _>>()?)?,
            limiter,
            staged: first.pool().burst(BATCH_FRAMES_MAX),
        }))
    }
}
