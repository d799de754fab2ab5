//! The pool's frames by place and by holder, without a pause: from the ledger's rows and the counters of queues.

use super::PagePool;
use crate::metrics::{Measured, Row, Walk};
use std::collections::BTreeMap;
use wharf_mem::lock;

const SIZE: Row = Row::gauge("wharf_pool_size_frames", "frames", "Frames of the pool.");
const PLACES: Row = Row::gauge(
    "wharf_pool_frames",
    "frames",
    "Frames by place: free in the depot, in mailboxes and caches; in use in lanes, disciplines and devices, or with users. \
     Return rings and memory posted for arrivals count as users; a chain counts once.",
);
const HELD: Row =
    Row::gauge("wharf_pool_held_frames", "frames", "Frames in use, by the name of the cache that took them.");
const WAITING: Row = Row::gauge("wharf_pool_waiting_caches", "caches", "Caches that wait for memory.");

impl PagePool {
    /// Returns the free frames in mailboxes, and the frames in use by holder.
    fn holders(&self) -> (u64, BTreeMap<String, u64>) {
        let by_cache = self.shared.ledger.count_by_cache();
        let mailboxes = lock(&self.shared.mailboxes);
        let mailed = mailboxes.iter().map(|mailbox| mailbox.len() as u64).sum();
        let mut holders = BTreeMap::new();
        for (cache, &frames) in by_cache.iter().enumerate() {
            match mailboxes.get(cache) {
                Some(mailbox) => *holders.entry(mailbox.name.clone()).or_default() += frames,
                None if frames > 0 => *holders.entry("the pool".into()).or_default() += frames,
                None => {}
            }
        }
        (mailed, holders)
    }
}

impl Measured for PagePool {
    fn measure(&self, walk: &mut Walk<'_>) {
        let number = self.region().number().to_string();
        let walk = &mut walk.with("pool", &number);
        let (mailed, holders) = self.holders();
        let held: u64 = holders.values().sum();
        let (frames, depot) = (u64::from(self.frames()), self.depot_len() as u64);
        let (mut lanes, mut backlog, mut device) = (0, 0, 0);
        self.peers().each(|queue| {
            let inside = queue.inside();
            (lanes, backlog, device) =
                (lanes + inside.lanes, backlog + inside.backlog, device + inside.device);
        });
        let places = [
            ("depot", depot),
            ("mailboxes", mailed),
            ("caches", frames.saturating_sub(held + depot + mailed)),
            ("lanes", lanes),
            ("disciplines", backlog),
            ("devices", device),
            ("users", held.saturating_sub(lanes + backlog + device)),
        ];
        walk.show(SIZE, frames);
        walk.show(WAITING, self.waiting_caches() as u64);
        places.into_iter().for_each(|(place, frames)| walk.with("place", place).show(PLACES, frames));
        holders.iter().for_each(|(holder, &frames)| walk.with("holder", holder).show(HELD, frames));
    }
}
