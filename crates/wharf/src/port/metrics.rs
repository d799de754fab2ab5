//! `Metrics`: one walk over all counters and gauges of a port.

use super::{Inner, Port};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wharf_core::metrics::{Measured, Metric, MetricKind, Walk};
use wharf_core::rx::RxQueue;

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
    /// a part, such as a sender. Counters of receivers and pollers that are gone stay in those of their
    /// name. Label `path` is the specification's: a program that opens one twice adds a label of its own.
    ///
    /// Counting a pool's frames reads a row per frame: some microseconds for each 4096.
    pub fn each(&self, see: &mut dyn FnMut(&Metric<'_>)) {
        let Inner { name, pool, queue, measured, pollers, .. } = &*self.port.inner;
        let mut all = Walk::new(see);
        let walk = &mut all.with("path", name);
        pool.measure(walk);
        queue.iter().for_each(|queue| queue.measured().measure(walk));
        let (gone, receivers) = self.port.receivers_and_gone();
        let mut series = gone.with(&receivers);
        measured.add_to(&mut series);
        pollers.measured().add_to(&mut series);
        series.each(name, see);
    }
}

/// Values of metrics by name and labels, whichever part they came from.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(BTreeMap<(&'static str, Labels), Value>);

type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone)]
struct Value {
    help: &'static str,
    unit: &'static str,
    kind: MetricKind,
    value: u64,
}

impl Series {
    /// Puts what `show` shows into `join` with what there is.
    fn join(&mut self, show: impl FnOnce(&mut Walk<'_>), join: fn(u64, u64) -> u64) {
        show(&mut Walk::new(&mut |&Metric { name, help, unit, kind, labels, value }| {
            let labels = labels.iter().map(|&(label, value)| (label, value.to_string())).collect();
            let known = self.0.entry((name, labels)).or_insert(Value { help, unit, kind, value: 0 });
            known.value = join(known.value, value);
        }));
    }

    fn add(&mut self, show: impl FnOnce(&mut Walk<'_>)) {
        self.join(show, u64::saturating_add);
    }

    fn keep_counters(&mut self) {
        self.0.retain(|_, value| value.kind == MetricKind::Counter);
    }

    fn each(&self, path: &str, see: &mut dyn FnMut(&Metric<'_>)) {
        for ((name, labels), Value { help, unit, kind, value }) in &self.0 {
            let labels = labels.iter().map(|(label, value)| (*label, value.as_str()));
            let labels: Vec<_> = [("path", path)].into_iter().chain(labels).collect();
            see(&Metric { name, help, unit, kind: *kind, labels: &labels, value: *value });
        }
    }
}

/// The counters of receive queues that are gone. Those of a device go on while it has another queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Gone {
    queues: Series,
    devices: Series,
}

impl Gone {
    pub(super) fn add(&mut self, queue: &RxQueue) {
        self.join(queue);
        self.queues.keep_counters();
    }

    fn join(&mut self, queue: &RxQueue) {
        self.queues.add(|walk| queue.measure_own(walk));
        self.devices.join(|walk| queue.measure_device(walk), u64::max);
    }

    /// Returns them with the metrics of `queues`.
    fn with(mut self, queues: &[RxQueue]) -> Series {
        queues.iter().for_each(|queue| self.join(queue));
        let Self { queues: mut all, devices } = self;
        for (series, value) in devices.0 {
            all.0.entry(series).and_modify(|known| known.value += value.value).or_insert(value);
        }
        all
    }
}

/// The counters of pollers, which come and go.
#[derive(Debug, Default)]
pub(super) struct Measurements(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    parts: Vec<Arc<dyn Measured>>,
    gone: Series,
}

impl Measurements {
    pub(super) fn add<M: Measured + 'static>(&self, part: &Arc<M>) {
        let known = &mut *wharf_mem::lock(&self.0);
        known.forget();
        known.parts.push(part.clone());
    }

    fn add_to(&self, series: &mut Series) {
        let known = &mut *wharf_mem::lock(&self.0);
        known.forget();
        for ((name, labels), value) in &known.gone.0 {
            let known = series.0.entry((name, labels.clone())).or_insert(Value { value: 0, ..value.clone() });
            known.value += value.value;
        }
        known.parts.iter().for_each(|part| series.add(|walk| part.measure(walk)));
    }
}

impl Known {
    /// Sums up those that nothing else has.
    fn forget(&mut self) {
        let is_gone = |part: &mut Arc<dyn Measured>| Arc::strong_count(part) == 1;
        self.parts.extract_if(.., is_gone).for_each(|part| self.gone.add(|walk| part.measure(walk)));
        self.gone.keep_counters();
    }
}
