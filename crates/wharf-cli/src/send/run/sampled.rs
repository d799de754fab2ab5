//! Samples of a run for the page of `--report`.

use crate::page::{Page, Reading};
use crate::queues;
use crate::send::plan::Plan;
use crate::send::table;
use wharf::engine::Batching;
use wharf::queue::TxQueue;

/// The page, and the counters that it shows.
pub(super) struct Sampled<'a> {
    page: &'a Page,
    /// The name of the lines of this run.
    name: String,
    queues: &'a [TxQueue],
    has_bql: bool,
}

impl<'a> Sampled<'a> {
    /// Begins a run on the page.
    pub(super) fn new(
        page: &'a Page, plan: &Plan, batching: Batching, (queues, has_bql): (&'a [TxQueue], bool),
    ) -> Self {
        let name = match plan.batchings.len() {
            0 | 1 => "sent".into(),
            _ => format!("batching {}", table::column_name(&batching)),
        };
        page.begin();
        Self { page, name, queues, has_bql }
    }

    pub(super) fn look(&self) {
        self.page.look(|| self.read());
    }

    pub(super) fn end(&self) {
        self.page.end(|| self.read());
    }

    fn read(&self) -> Vec<Reading> {
        let drops = queues::drops(self.queues).by_reason;
        vec![Reading { drops, ..Reading::of_queues(&self.name, self.queues, self.has_bql) }]
    }
}
