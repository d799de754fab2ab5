//! Samples of a run for the page of `--report`.

use crate::page::{Page, Reading};
use std::cell::RefCell;
use wharf_tools::forward::{Direction, Forward, QueueDelay};

/// The bands of a discipline, the most urgent first.
const BANDS: [&str; 3] = ["band 0", "band 1", "band 2"];

/// The page, and what it shows.
pub(super) struct Sampled<'a> {
    page: &'a Page,
    forward: &'a Forward,
    /// Times in the disciplines as of the last sample, by direction.
    before: RefCell<Vec<QueueDelay>>,
}

impl<'a> Sampled<'a> {
    /// Begins the run on the page.
    pub(super) fn new(page: &'a Page, forward: &'a Forward) -> Self {
        page.begin();
        let before = forward.directions().iter().map(|_| QueueDelay::default()).collect();
        Self { page, forward, before: RefCell::new(before) }
    }

    pub(super) fn look(&self) {
        self.page.look(|| self.read());
    }

    fn read(&self) -> Vec<Reading> {
        let mut before = self.before.borrow_mut();
        self.forward
            .directions()
            .iter()
            .zip(before.iter_mut())
            .map(|(direction, before)| reading(direction, before))
            .collect()
    }
}

/// The last sample is taken as the watch over the run ends, before what is inside is drained.
impl Drop for Sampled<'_> {
    fn drop(&mut self) {
        self.page.end(|| self.read());
    }
}

fn reading(direction: &Direction, before: &mut QueueDelay) -> Reading {
    let now = direction.queue_delay();
    let mut delay_p99_ns = Vec::new();
    for ((name, now), before) in BANDS.into_iter().zip(&now.by_band).zip(&before.by_band) {
        let mut since = now.since(before);
        if since.packets() > 0 {
            delay_p99_ns.push((name, since.quantile_ns(0.99)));
        }
    }
    *before = now;
    let name = format!("to {}", direction.to);
    Reading {
        drops: direction.drops(),
        delay_p99_ns,
        ..Reading::of_queues(&name, &direction.queues, direction.has_bql)
    }
}
