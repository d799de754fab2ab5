//! Reports of transmit queues.

use crate::counts::Counts;
use crate::report::{BqlReport, Drops, PoolReport, QueueReport, Report, SenderReport};
use wharf::queue::TxQueue;
use wharf_core::counters::QueueCounters;
use wharf_core::device::LimitUnit;
use wharf_core::drops::drops_by_reason;
use wharf_core::pool::Audit;
use wharf_core::sender::DROP_TAIL;

/// Makes a report of the counters of one device's queues, and leaves the rest of it empty. `span_ns` is from the first packet to the last.
pub(crate) fn of_queues(
    device: &str, queues: &[TxQueue], returned: Option<u64>, has_bql: bool, span_ns: u64, audit: &Audit,
) -> Report {
    let by_queue: Vec<QueueReport> = queues.iter().map(|queue| queue_report(queue, has_bql)).collect();
    let counts = Counts::sum(by_queue.iter().map(|queue| queue.counts), returned);
    let taken = sum(queues, |all| all.sent.get());
    // The kernel does not tell the bytes of a datagram that did not arrive: they count with the mean length.
    let sent_bytes = counts.sent_bytes as f64 * counts.sent as f64 / taken.max(1) as f64;
    let seconds = span_ns as f64 / 1e9;
    let per_second = |amount: f64| if span_ns == 0 { 0.0 } else { rounded(amount / seconds) };
    Report {
        device: device.into(),
        mode: queues.first().and_then(TxQueue::device_mode),
        mode_reason: queues.first().and_then(TxQueue::device_mode_reason).map(|reason| reason.what.clone()),
        seconds,
        counts,
        mpps: per_second(counts.sent as f64 / 1e6),
        gbps: per_second(sent_bytes * 8.0 / 1e9),
        packets_per_doorbell: rounded(counts.packets as f64 / counts.doorbells.max(1) as f64),
        bql: bql_report(queues, has_bql, &counts),
        senders: senders(queues),
        queues: by_queue,
        pool: PoolReport::of(audit),
        ..Report::default()
    }
}

/// Returns a sum over queues.
pub(crate) fn sum(queues: &[TxQueue], count: impl Fn(&QueueCounters) -> u64) -> u64 {
    queues.iter().map(|queue| count(queue.counters())).sum()
}

/// Returns the drops in the queues and devices, and those of senders before the queues.
pub(crate) fn drops(queues: &[TxQueue]) -> Drops {
    let by_reason = drops_by_reason(queues, &[]);
    let at_senders = by_reason.get(DROP_TAIL).copied().unwrap_or_default();
    Drops { total: sum(queues, QueueCounters::lost_packets) + at_senders, by_reason }
}

fn bql_report(queues: &[TxQueue], enabled: bool, counts: &Counts) -> BqlReport {
    let unit = queues.first().map(TxQueue::limit_unit).unwrap_or_default();
    let limit_packets = (enabled && unit == LimitUnit::Packets).then_some(counts.limit_packets);
    BqlReport { enabled, limit_bytes: counts.limit_bytes, unit: unit.name(), limit_packets }
}

fn queue_report(queue: &TxQueue, has_bql: bool) -> QueueReport {
    let signals = queue.signals();
    QueueReport {
        counts: Counts::of(queue, has_bql),
        cleaned_from_receive: queue.counters().cleaned_from_receive.get(),
        interrupts: signals.map(|signals| signals.interrupts),
        kicks: signals.map(|signals| signals.kicks),
    }
}

/// Returns a report for each sender, over its places in all queues.
fn senders(queues: &[TxQueue]) -> Vec<SenderReport> {
    let by_queue: Vec<_> = queues.iter().map(TxQueue::senders).collect();
    let count = by_queue.iter().map(Vec::len).max().unwrap_or(0);
    let report = |at: usize| {
        let places = || by_queue.iter().filter_map(move |senders| senders.get(at));
        let small_queue_bytes: u64 = places().map(|sender| sender.small_queue_bytes.get()).sum();
        SenderReport {
            packets: places().map(|sender| sender.packets.get()).sum(),
            waits: places().map(|sender| sender.waits.get()).sum(),
            drops: places().map(|sender| sender.drops.get()).sum(),
            full_drops: places().map(|sender| sender.full_drops.get()).sum(),
            deadline_drops: places().map(|sender| sender.deadline_drops.get()).sum(),
            memory_drops: places().map(|sender| sender.memory_drops.get()).sum(),
            drained_packets: places().map(|sender| sender.drained_packets.get()).sum(),
            small_queue_bytes: Some(small_queue_bytes).filter(|&bytes| bytes > 0),
        }
    };
    (0..count).map(report).collect()
}

/// Rounds to six places, or to six digits if there would be fewer: no measurement is more exact.
pub(crate) fn rounded(number: f64) -> f64 {
    let places = if number > 0.0 { 5 - number.log10().floor() as i32 } else { 0 };
    let scale = 10f64.powi(places.max(6));
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn a_number_keeps_six_digits_however_small() {
        let numbers = [0.0, 2e-7, 1.234_567_89e-7, 14.880_952_4, 1e9 / 3.0].map(rounded);
        assert_eq!(numbers, [0.0, 2e-7, 1.234_57e-7, 14.880_952, 333_333_333.333_333]);
    }
}
