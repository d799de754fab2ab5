//! Scenarios: a file with anybody's senders, queue, link and machine, run in virtual time or on this machine.
//!
//! - [`Scenario`] is the file, [`Machine`] the costs of a machine, assumed or measured by [`calibrate`].
//! - [`predict`] runs a scenario in virtual time over [`wharf_path`](crate::models::wharf_path), whose parts are the
//!   path's own; [`measure`] runs the same one on this machine, over `null` or a line in this process.
//! - [`Comparison`] sets the figures of both side by side.

pub mod calibrate;
mod compare;
mod file;
mod files;
mod host;
mod line;
mod machine;
mod model;
mod stamps;

pub use compare::{Compared, Comparison};
pub use file::{Link, Owner, Published, Scenario, Sender};
pub use files::{Folder, text_of};
pub use host::measure;
pub use machine::Machine;
pub use model::predict;
pub use wharf_sim::flows::arrivals::Arrivals;

use crate::comparators::histogram::Histogram;
use crate::experiment::row::jain_ppm;
use crate::experiment::{Row, RowKind};
use wharf_core::bql::Bounds;

/// A sender on this machine sleeps if its next packet is farther off.
const SPIN_NS: u64 = 50_000;

/// The figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Packets that left within the measured time, by sender.
    by_sender: Vec<u64>,
    /// Their bytes with the wire's overhead, if there is a link.
    wire_bytes: u64,
    /// Time measured.
    measured_ns: u64,
    /// Doorbells, or calls of the device that moved frames, and the packets given to it.
    doorbells: u64,
    packets_given: u64,
    /// The byte limit at the end of the measured time.
    limit_bytes: u64,
    /// Times from a packet's making until it left, by group of senders; none if they were not measured.
    delays: Vec<Histogram>,
}

const MPPS: (&str, &str) = ("mpps", "Mpps");
const JAIN: (&str, &str) = ("jain_senders", "Jain's index");
const WIRE: (&str, &str) = ("wire_used", "percent");
const PER_DOORBELL: (&str, &str) = ("packets_per_doorbell", "packets");
const LIMIT: (&str, &str) = ("byte_limit", "bytes");
const DELAYS: [(&str, &str); 3] = [("delay_p50", "us"), ("delay_p99", "us"), ("delay_most", "us")];

/// Returns the names of the figures of all senders together.
fn figure_names() -> Vec<&'static str> {
    [MPPS, JAIN, WIRE, PER_DOORBELL, LIMIT].into_iter().chain(DELAYS).map(|what| what.0).collect()
}

impl Figures {
    /// Returns the packets that left in a second.
    fn packets_per_second(&self) -> u64 {
        ratio(self.by_sender.iter().sum(), 1_000_000_000, self.measured_ns)
    }

    /// Returns the rows of these figures.
    fn rows(&self, scenario: &Scenario, kind: RowKind) -> Vec<Row> {
        let row = |label: &str, what, millionths: u64| Row::new(label, what, millionths as i64, kind);
        let rate = |packets: u64| ratio(packets, 1_000_000_000, self.measured_ns);
        let all = self.by_sender.iter().sum();
        let mut rows = vec![
            row("all", MPPS, rate(all)),
            row("all", JAIN, jain_ppm(self.by_sender.iter().copied()) as u64),
        ];
        if let Some(link) = &scenario.link {
            let full = ratio(link.bits_per_second, self.measured_ns, 8_000_000_000);
            rows.push(row("all", WIRE, ratio(self.wire_bytes, 100_000_000, full)));
        }
        if self.doorbells > 0 {
            rows.push(row("all", PER_DOORBELL, ratio(self.packets_given, 1_000_000, self.doorbells)));
        }
        if scenario.link.is_some() && scenario.byte_limits != Bounds::OFF {
            rows.push(row("all", LIMIT, self.limit_bytes * 1_000_000));
        }
        let delays = |label: &str, of: &Histogram| {
            let ns = [of.at_permille(500), of.at_permille(990), of.max()];
            let measured = DELAYS.into_iter().zip(ns).filter(|_| of.count() > 0);
            measured.map(|(what, ns)| row(label, what, ns * 1000)).collect::<Vec<_>>()
        };
        let of_all = Histogram::default();
        self.delays.iter().for_each(|group| of_all.add(group));
        rows.extend(delays("all", &of_all));
        let mut first = 0;
        for (at, (label, group)) in scenario.labels().iter().zip(&scenario.senders).enumerate() {
            let packets = &self.by_sender[first..first + group.count];
            first += group.count;
            let each = packets.iter().map(|&packets| rate(packets) as f64 / 1e6).collect();
            rows.push(row(label, MPPS, rate(packets.iter().sum())).by_thread(each));
            if let Some(of) = self.delays.get(at).filter(|_| scenario.senders.len() > 1) {
                rows.extend(delays(label, of));
            }
        }
        rows.into_iter().map(|row| scenario.beside_published(row)).collect()
    }
}

/// Returns `part` x `scale` / `whole`; 0 of nothing.
fn ratio(part: u64, scale: u64, whole: u64) -> u64 {
    (u128::from(part) * u128::from(scale)).checked_div(whole.into()).unwrap_or(0) as u64
}
