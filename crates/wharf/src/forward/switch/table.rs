//! `MacTable`: the port at which each station of a switch was seen last, by VLAN and address.
//!
//! Ports on several threads learn and look up at once, without a lock. Each entry is one word, so no reader
//! ever sees one station's address with another's port: the address is mixed by a permutation of its 60 bits,
//! of which some are the slot of the table, and the others are in the word. The permutation has a secret, so
//! that no guest can choose addresses that all have one slot. The table is as long as it is, a port has a
//! share of it at most, and entries grow old by ticks that its user counts. No time, no packet is in here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Ports that a table can name.
pub(in crate::forward) const PORTS_MAX: usize = 255;
/// Entries of one slot.
const WAYS: usize = 8;
const PLACE_BITS: u32 = 12;
const VLAN_MAX: u16 = 4095;
/// Most stations of one port: half of the table's room.
pub(super) const STATIONS_MAX: u32 = (WAYS << PLACE_BITS) as u32 / 2;
/// Ticks after which a station that was not seen is forgotten.
pub(super) const AGE_TICKS: u8 = 30;
const HALF_BITS: u32 = 30;
const HALF: u64 = (1 << HALF_BITS) - 1;

/// A station: an address in a VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Station(u64);

impl Station {
    /// `vlan` is 0 to [`VLAN_MAX`].
    pub(super) fn new(mac: [u8; 6], vlan: u16) -> Self {
        let [a, b, c, d, e, f] = mac;
        Self(u64::from(vlan & VLAN_MAX) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
}

/// What became of the sight of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is known at this port, now.
    Here,
    /// It may not be at this port.
    NotHere,
    /// There is no room: it is not known now.
    NoRoom,
}

/// An entry: 48 bits of the mixed address, the port's number and 1, a tick; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const NONE: Self = Self(0);

    fn new(tag: u64, port: u8, tick: u8) -> Self {
        Self(tag << 16 | (u64::from(port) + 1) << 8 | u64::from(tick))
    }

    fn is_of(self, tag: u64) -> bool {
        self != Self::NONE && self.0 >> 16 == tag
    }

    fn port(self) -> u8 {
        ((self.0 >> 8) as u8).wrapping_sub(1)
    }

    fn tick(self) -> u8 {
        self.0 as u8
    }
}

/// See the module.
pub(super) struct MacTable {
    entries: Box<[AtomicU64]>,
    secrets: [u64; 4],
    /// Entries of each port.
    counts: Box<[AtomicU32]>,
}

impl std::fmt::Debug for MacTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: u32 = self.counts.iter().map(|count| count.load(Relaxed)).sum();
        write!(f, "MacTable({known} stations)")
    }
}

impl MacTable {
    pub(super) fn new(secrets: [u64; 4]) -> Self {
        Self {
            entries: (0..WAYS << PLACE_BITS).map(|_| AtomicU64::new(0)).collect(),
            secrets,
            counts: (0..PORTS_MAX).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Returns the entries of the station's slot, and its tag: a Feistel network of two halves.
    fn place(&self, station: Station) -> (&[AtomicU64], u64) {
        let (mut left, mut right) = (station.0 >> HALF_BITS, station.0 & HALF);
        for secret in self.secrets {
            let mixed = (right ^ secret).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ (mixed ^ mixed >> 29) >> 17 & HALF);
        }
        let mixed = left << HALF_BITS | right;
        let place = (mixed & ((1 << PLACE_BITS) - 1)) as usize * WAYS;
        (&self.entries[place..place + WAYS], mixed >> PLACE_BITS)
    }

    /// Returns the port of a station.
    pub(super) fn port_of(&self, station: Station) -> Option<u8> {
        let (place, tag) = self.place(station);
        let mut entries = place.iter().map(|entry| Entry(entry.load(Relaxed)));
        entries.find(|entry| entry.is_of(tag)).map(Entry::port)
    }

    /// Notes that a station was seen at `port` at `tick`. If it is not known there, `may_be_here` is asked.
    pub(super) fn see(
        &self, station: Station, port: u8, tick: u8, may_be_here: impl FnOnce() -> bool,
    ) -> Seen {
        let (place, tag) = self.place(station);
        let seen = Entry::new(tag, port, tick);
        let load = |entry: &AtomicU64| Entry(entry.load(Relaxed));
        let known = place.iter().find(|entry| load(entry).is_of(tag));
        match known.map(load) {
            Some(now) if now == seen => return Seen::Here,
            Some(now) if now.port() == port => {
                // Another thread may have seen it elsewhere just now: that counts.
                known.inspect(|entry| _ = self.replace(entry, now, seen));
                return Seen::Here;
            }
            _ if !may_be_here() => return Seen::NotHere,
            _ if self.stations(port) >= STATIONS_MAX => return Seen::NoRoom,
            _ => {}
        }
        let free = || place.iter().find(|entry| load(entry) == Entry::NONE);
        // Where a station has none, it takes that of a port with more stations than its own: no port can take
        // the table from the others.
        let stations_at = |entry: &&AtomicU64| self.stations(load(entry).port());
        let taken =
            || place.iter().max_by_key(stations_at).filter(|entry| stations_at(entry) > self.stations(port));
        match known.or_else(free).or_else(taken) {
            Some(entry) if self.replace(entry, load(entry), seen) => Seen::Here,
            _ => Seen::NoRoom,
        }
    }

    /// Puts one entry in the place of another, unless another thread has done so. Returns true if it did.
    fn replace(&self, entry: &AtomicU64, now: Entry, by: Entry) -> bool {
        if entry.compare_exchange(now.0, by.0, Relaxed, Relaxed).is_err() {
            return false;
        }
        if now == Entry::NONE || now.port() != by.port() {
            let count = |entry: Entry| self.counts.get(usize::from(entry.port()));
            count(now).inspect(|count| _ = count.fetch_sub(1, Relaxed));
            count(by).inspect(|count| _ = count.fetch_add(1, Relaxed));
        }
        true
    }

    /// Forgets a station, in all VLANs, at ports other than `port`.
    pub(super) fn forget_elsewhere(&self, mac: [u8; 6], port: u8) {
        for vlan in 0..=VLAN_MAX {
            let (place, tag) = self.place(Station::new(mac, vlan));
            for entry in place {
                let now = Entry(entry.load(Relaxed));
                if now.is_of(tag) && now.port() != port {
                    self.replace(entry, now, Entry::NONE);
                }
            }
        }
    }

    /// Forgets the stations of `port`.
    pub(super) fn forget(&self, port: u8) {
        self.retain(|entry| entry.port() != port);
    }

    /// Forgets the stations that were not seen for [`AGE_TICKS`] before `tick`. It is called for each tick.
    pub(super) fn age(&self, tick: u8) {
        self.retain(|entry| tick.wrapping_sub(entry.tick()) <= AGE_TICKS);
    }

    /// Keeps the entries that `keeps` is true of, and of two for one station the first: two threads may have
    /// made them at the same time.
    fn retain(&self, keeps: impl Fn(Entry) -> bool) {
        for place in self.entries.chunks_exact(WAYS) {
            for (at, entry) in place.iter().enumerate() {
                let now = Entry(entry.load(Relaxed));
                let is_same = |other: &AtomicU64| Entry(other.load(Relaxed)).is_of(now.0 >> 16);
                if now != Entry::NONE && (!keeps(now) || place[..at].iter().any(is_same)) {
                    self.replace(entry, now, Entry::NONE);
                }
            }
        }
    }

    /// Returns the number of the port's stations.
    pub(super) fn stations(&self, port: u8) -> u32 {
        self.counts[usize::from(port)].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        See(u8, u16, u8),
        Pin(u8, u8),
        Forget(u8),
        Tick(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (mac, vlan, port) = (0..24u8, 0..3u16, 0..4u8);
        prop_oneof![
            20 => (mac.clone(), vlan, port.clone()).prop_map(|(mac, vlan, port)| Step::See(mac, vlan, port)),
            1 => (mac, port.clone()).prop_map(|(mac, port)| Step::Pin(mac, port)),
            1 => port.prop_map(Step::Forget),
            4 => (1..4u8).prop_map(Step::Tick),
            1 => Just(Step::Tick(AGE_TICKS)),
        ]
    }

    fn station(mac: u8, vlan: u16) -> Station {
        Station::new([2, 0, 0, 0, mac / 7, mac], vlan)
    }

    proptest! {
        // An unoptimised sweep takes a millisecond.
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        /// The model: a port for each station, and the time at which it was seen last; none if it is for
        /// good.
        #[test]
        fn it_is_a_map_whose_entries_grow_old(
            secrets in any::<[u64; 4]>(), steps in prop::collection::vec(step(), 1..150),
        ) {
            let table = MacTable::new(secrets);
            let (mut model, mut pins) = (HashMap::<(u8, u16), (u8, u32)>::new(), HashMap::<u8, u8>::new());
            let (mut now, mut tick) = (0u32, 0u8);
            for step in steps {
                match step {
                    Step::See(mac, vlan, port) => {
                        let may_be_here = pins.get(&mac).is_none_or(|own| *own == port);
                        let is_here = model.get(&(mac, vlan)).is_some_and(|(there, _)| *there == port);
                        let seen = table.see(station(mac, vlan), port, tick, || may_be_here);
                        let want = if may_be_here || is_here { Seen::Here } else { Seen::NotHere };
                        prop_assert_eq!(seen, want);
                        if want == Seen::Here {
                            model.insert((mac, vlan), (port, now));
                        }
                    }
                    Step::Pin(mac, port) => {
                        pins.insert(mac, port);
                    }
                    Step::Forget(port) => {
                        table.forget(port);
                        model.retain(|_, (there, _)| *there != port);
                    }
                    Step::Tick(count) => for _ in 0..count {
                        (now, tick) = (now + 1, tick.wrapping_add(1));
                        table.age(tick);
                        model.retain(|_, (_, seen)| now - *seen <= u32::from(AGE_TICKS));
                    }
                }
                for (mac, vlan) in (0..24).flat_map(|mac| (0..3).map(move |vlan| (mac, vlan))) {
                    let want = model.get(&(mac, vlan)).map(|(port, _)| *port);
                    prop_assert_eq!(table.port_of(station(mac, vlan)), want);
                }
                for port in 0..4 {
                    let want = model.values().filter(|(there, _)| *there == port).count();
                    prop_assert_eq!(table.stations(port), want as u32);
                }
            }
        }
    }

    #[test]
    fn a_port_has_a_share_of_the_room_and_the_others_keep_theirs() {
        let table = MacTable::new([1, 2, 3, 4]);
        let far =
            |n: u32| Station::new([[2, 9].as_slice(), &n.to_be_bytes()].concat().try_into().unwrap(), 7);
        let near: Vec<Station> =
            (0..1000u16).map(|n| Station::new([2, 0, 0, 1, (n >> 8) as u8, n as u8], 7)).collect();
        assert!(near.iter().all(|station| table.see(*station, 1, 1, || true) == Seen::Here));
        let learnt: Vec<u32> =
            (0..1_000_000).filter(|&n| table.see(far(n), 2, 1, || true) == Seen::Here).collect();
        assert_eq!(learnt.len(), STATIONS_MAX as usize, "a flood of addresses ends there");
        assert!(near.iter().all(|station| table.port_of(*station) == Some(1)));
        assert!(learnt.iter().all(|&n| table.port_of(far(n)) == Some(2)));
        // They move, all of them, and those that find no room do not.
        let moved = learnt.iter().filter(|&&n| table.see(far(n), 3, 2, || true) == Seen::Here).count();
        assert_eq!((moved, table.stations(2), table.stations(3)), (learnt.len(), 0, STATIONS_MAX));
    }

    #[test]
    fn ports_that_fill_the_table_give_way_to_one_with_few_stations() {
        let table = MacTable::new([1, 2, 3, 4]);
        let of = |port: u8, n: u32| {
            Station::new([[2, port].as_slice(), &n.to_be_bytes()].concat().try_into().unwrap(), 7)
        };
        for n in 0..200_000 {
            _ = [2, 3].map(|port| table.see(of(port, n), port, 1, || true));
        }
        assert!((0..1000).all(|n| table.see(of(1, n), 1, 1, || true) == Seen::Here));
        assert_eq!(table.stations(1), 1000);
    }

    #[test]
    fn threads_that_see_one_station_leave_one_entry() {
        let table = MacTable::new([5, 6, 7, 8]);
        for round in 0..200u8 {
            let station = Station::new([2, 0, 0, 0, 0, round], 0);
            std::thread::scope(|scope| {
                for port in 0..4 {
                    let table = &table;
                    scope.spawn(move || (0..20).for_each(|_| _ = table.see(station, port, 1, || true)));
                }
            });
        }
        table.age(1);
        assert_eq!((0..4).map(|port| table.stations(port)).sum::<u32>(), 200);
    }
}
