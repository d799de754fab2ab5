//! What readers hold: the newest snapshot, without a lock.

use crate::hop::{Hop, NoHop};
use crate::kernel::Mac;
use crate::query::Query;
use crate::state::Snapshot;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the mirror shares with its readers.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    current: ArcSwap<Snapshot>,
    generation: AtomicU64,
    overruns: AtomicU64,
}

impl Shared {
    /// Puts a snapshot in place of the one that readers have, which it returns.
    pub(crate) fn publish(&self, mut snapshot: Snapshot) -> Arc<Snapshot> {
        let generation = self.generation() + 1;
        snapshot.generation = generation;
        let old = self.current.swap(Arc::new(snapshot));
        // (A) pairs with (B): who sees the number finds the snapshot.
        self.generation.store(generation, Ordering::Release);
        old
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire) // (B)
    }

    pub(crate) fn note_overrun(&self) {
        self.overruns.fetch_add(1, Ordering::Relaxed);
    }
}

/// The kernel's tables as the mirror has them, for any thread. A clone shares them. No call takes a lock or
/// waits.
#[derive(Clone, Debug)]
pub struct Tables(Arc<Shared>);

impl Tables {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns where a packet has to go next.
    ///
    /// # Errors
    /// Why it cannot go anywhere.
    pub fn lookup(&self, query: &Query) -> Result<Hop, NoHop> {
        self.0.current.load().lookup(query)
    }

    /// Returns the number of the tables' state, which rises with each change: an answer is good while it is
    /// the same.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// Returns how often events were lost, so that everything was dumped anew.
    pub fn overruns(&self) -> u64 {
        self.0.overruns.load(Ordering::Relaxed)
    }

    /// Returns the number of prefixes, of IPv4 and of IPv6.
    pub fn prefixes(&self) -> (usize, usize) {
        let now = self.0.current.load();
        (now.v4.count(), now.v6.count())
    }

    /// Returns the name of an interface.
    pub fn interface_name(&self, index: u32) -> Option<String> {
        self.0.current.load().links.get(&index).map(|link| link.name.to_string())
    }

    /// Returns the MAC of an interface.
    pub fn interface_mac(&self, index: u32) -> Option<Mac> {
        self.0.current.load().links.get(&index).and_then(|link| link.mac)
    }

    /// Returns the index of an interface, by its name or another that it has (`altname`).
    pub fn interface_index(&self, name: &str) -> Option<u32> {
        let now = self.0.current.load();
        let mut links = now.links.values();
        links.find(|link| link.has_name(name)).map(|link| link.index)
    }

    /// Returns the VRF that an interface is a port of, or is: what [`Query::output`] takes for its
    /// packets. 0: none.
    pub fn interface_vrf(&self, index: u32) -> u32 {
        self.0.current.load().vrf_of(index).map_or(0, |(vrf, _)| vrf)
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }
}
