//! `Metrics`: one walk over all counters and gauges of a port.

use super::{Inner, Port};
use std::sync::{Arc, Mutex, Weak};
use wharf_core::metrics::{Measured, Metric, Walk};

/// The metrics of a port: its pool, its queue with the senders, its receive queue with the device's counters, its
/// pollers.
///
/// ```
/// use wharf::{Direction, Port, Wait};
/// use wharf::metrics::MetricKind;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = Port::open("null", Direction::Send)?;
/// let mut sender = port.sender("example")?;
/// let packet = sender.packet(64, Wait::Never)?;
/// _ = sender.send_packet(packet, Wait::Never)?;
///
/// // The text format of Prometheus; a label's value must have `\\`, `"` and line ends escaped.
/// let mut text = String::new();
/// port.metrics().each(&mut |metric| {
///     let total = if metric.kind == MetricKind::Counter { "_total" } else { "" };
///     let labels: Vec<_> = metric.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
///     text += &format!("{}{total}{{{}}} {}\n", metric.name, labels.join(","), metric.value);
/// });
/// assert!(text.contains("wharf_queue_sent_total{path=\"null\",queue=\"null\"} 1\n"));
/// assert!(text.contains("wharf_sender_packets_total{path=\"null\",queue=\"null\",sender=\"example\"} 1\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Metrics<'a> {
    port: &'a Port,
}

impl<'a> Metrics<'a> {
    pub(super) fn new(port: &'a Port) -> Self {
        Self { port }
    }

    /// Shows each metric to `see`, without a pause of the port: the caller becomes no owner, and each value is an atomic.
    /// Values are of slightly different moments; at rest they add up. Metrics of one name follow each other only within
    /// a part, such as a sender. Label `path` is the specification's: a program that opens one twice adds a label of its own.
    ///
    /// Counting a pool's frames reads a row per frame: some microseconds for each 4096.
    pub fn each(&self, see: &mut dyn FnMut(&Metric<'_>)) {
        let Inner { name, pool, queue, measured, pollers, .. } = &*self.port.inner;
        let mut all = Walk::new(see);
        let walk = &mut all.with("path", name);
        pool.measure(walk);
        queue.iter().for_each(|queue| queue.measured().measure(walk));
        measured.each(|part| part.measure(walk));
        pollers.counters().iter().for_each(|counters| counters.measure(walk));
    }
}

/// The parts of a port that come and go: receive queues and pollers.
#[derive(Debug, Default)]
pub(super) struct Measurements(Mutex<Vec<Weak<dyn Measured>>>);

impl Measurements {
    pub(super) fn add<M: Measured + 'static>(&self, part: &Arc<M>) {
        let part: Arc<dyn Measured> = part.clone();
        self.add_weak(Arc::downgrade(&part));
    }

    pub(super) fn add_weak(&self, part: Weak<dyn Measured>) {
        let mut parts = wharf_mem::lock(&self.0);
        parts.retain(|part| part.strong_count() > 0);
        parts.push(part);
    }

    fn each(&self, see: impl FnMut(Arc<dyn Measured>)) {
        let parts = wharf_mem::lock(&self.0).clone();
        parts.iter().filter_map(Weak::upgrade).for_each(see);
    }
}
