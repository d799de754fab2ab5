//! The rows for people.

use super::Row;
use wharf_cli::output::{table, text};

/// A line per row.
pub(super) fn table_of(rows: &[Row]) -> String {
    let header = [
        "path",
        "cores",
        "senders",
        "burst",
        "Mpps",
        "pkts/doorbell",
        "alloc",
        "fill",
        "send",
        "complete",
        "cycles/pkt",
    ];
    let mut lines = table(&header);
    for row in rows {
        let [alloc, fill, send, complete, all] = match &row.cycles {
            Some(cycles) => {
                let stages = [cycles.alloc, cycles.fill, cycles.send, cycles.complete];
                let [alloc, fill, send, complete] = stages.map(|ticks| format!("{ticks:.1}"));
                [alloc, fill, send, complete, format!("{:.1}", stages.iter().sum::<f64>())]
            }
            None => std::array::from_fn(|_| "-".to_string()),
        };
        let kind = format!("{:?}", row.kind).to_lowercase();
        let numbers = [row.cores.to_string(), row.senders.to_string(), row.burst.to_string()];
        let rates = [format!("{:.2}", row.mpps), format!("{:.1}", row.packets_per_doorbell)];
        let stages = [alloc, fill, send, complete, all];
        lines.add_row([kind].into_iter().chain(numbers).chain(rates).chain(stages));
    }
    text(&lines)
}
