//! `Snapshot`: the counters of a run at one time, as JSON. The keys are a promise: they are added to, never renamed.

use super::change::setting_text;
use super::device::DeviceRow;
use super::runtime::Runtime;
use crate::counts::Counts;
use crate::output::time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;
use wharf_core::delay::BANDS;
use wharf_tools::traffic::Latency;

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Time since the run began.
    pub(super) time_s: f64,
    /// Time that the rates are of: since the snapshot before, or since the run began.
    #[serde(default)]
    pub(super) rates_over_s: f64,
    pub(super) pid: u32,
    /// `send`, `receive` or `forward`.
    pub(super) command: String,
    /// Processor time of the process.
    #[serde(default)]
    pub(super) runtime: Runtime,
    /// By direction; empty before the devices are open.
    pub(crate) paths: Vec<PathCounters>,
}

/// The counters of one direction. Values beside its counts are of slightly different moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PathCounters {
    /// Name: `a-b` and `b-a` of a forwarder, else the command's.
    pub(super) path: String,
    /// Number of the run, from 2 on: the summary is of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<u32>,
    /// None in what another process has sent.
    #[serde(skip)]
    pub(super) identity: Option<Identity>,
    pub(super) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) received_packets: u64,
    /// Their bytes, from the Ethernet header on.
    pub(crate) received_bytes: u64,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Packets that wait in the discipline and the requeue slot.
    pub(crate) backlog_packets: u64,
    /// Packets in the device.
    pub(crate) device_packets: u64,
    /// Frames of the pool that are in use.
    pub(super) frames_out: u64,
    /// Packets lost, by reason.
    pub(crate) drops: BTreeMap<String, u64>,
    /// Time that packets waited in the discipline since the run began, by band; without bands in band 1.
    pub(super) delay_ns_by_band: Vec<BandDelay>,
    /// The same since the snapshot before.
    pub(crate) recent_delay_ns_by_band: Vec<BandDelay>,
    /// The same of the last minute, or of up to ten seconds more.
    pub(super) minute_delay_ns_by_band: Vec<BandDelay>,
    /// The times themselves.
    #[serde(skip)]
    pub(super) delays: Bands,
    /// Settings in force, as `wharf set` takes them.
    pub(super) settings: BTreeMap<String, String>,
    /// The long queue that these settings let stand, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<String>,
    /// Rates since the snapshot before, or since the run began.
    pub(super) rates: Rates,
    /// By transmit queue.
    pub(crate) queues: Vec<QueueRow>,
    /// Figures of the device that it leaves by, if that has any of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<DeviceRow>,
}

/// Rates of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rates {
    pub(super) received_pps: f64,
    pub(super) sent_pps: f64,
    /// Bits per second, from the Ethernet header on.
    pub(super) sent_bps: f64,
    pub(super) dropped_pps: f64,
}

/// Times that the packets of one band waited, ns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BandDelay {
    pub(crate) band: u8,
    pub(super) p50: u64,
    pub(crate) p99: u64,
}

/// The counters of one transmit queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueRow {
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Rates since the snapshot before, or since the run began.
    pub(super) sent_pps: f64,
    pub(super) sent_bps: f64,
}

impl Snapshot {
    /// Sets the rates and recent delays since `before`, a snapshot of the same run, or since the run began.
    pub(crate) fn with_rates(mut self, before: Option<&Self>) -> Self {
        let seconds = self.time_s - before.map_or(0.0, |before| before.time_s);
        self.rates_over_s = (seconds * 1e3).round() / 1e3;
        for path in &mut self.paths {
            let of_path =
                |before: &&PathCounters| before.path == path.path && before.identity == path.identity;
            let earlier = before.and_then(|before| before.paths.iter().find(of_path));
            path.set_rates(earlier.unwrap_or(&PathCounters::default()), seconds.max(1e-6));
        }
        let packets = self.handled().saturating_sub(before.map_or(0, Self::handled));
        self.runtime.set_since(before.map(|before| &before.runtime), seconds.max(1e-6), packets);
        self
    }

    /// Returns the packets received, and those that a direction sent which receives none.
    fn handled(&self) -> u64 {
        let of =
            |path: &PathCounters| path.from.as_ref().map_or(path.counts.packets, |_| path.received_packets);
        self.paths.iter().map(of).sum()
    }
}

impl BandDelay {
    /// Returns the percentiles of each band that has packets.
    pub(super) fn of(bands: Bands) -> Vec<Self> {
        let row = |(band, mut delay): (u8, Latency)| {
            let (p50, p99) = (delay.quantile_ns(0.5), delay.quantile_ns(0.99));
            (delay.packets() > 0).then_some(Self { band, p50, p99 })
        };
        bands.into_iter().filter_map(row).collect()
    }

    /// Returns its times as people read them.
    pub(super) fn times(&self) -> String {
        format!("p50 {}, p99 {}", time(self.p50), time(self.p99))
    }
}

impl Display for BandDelay {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "band {}: {}", self.band, self.times())
    }
}

impl QueueRow {
    fn set_rates(&mut self, before: &Self, seconds: f64) {
        self.sent_pps = rate(self.counts.sent, before.counts.sent, seconds);
        self.sent_bps = rate(self.counts.sent_bytes, before.counts.sent_bytes, seconds) * 8.0;
    }
}

impl PathCounters {
    /// Returns its ends, for people.
    pub(super) fn ends(&self) -> String {
        [self.from.as_deref(), self.to.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" to ")
    }

    /// Returns the settings as `wharf set` takes them, and people give them.
    pub(super) fn settings_texts(&self) -> impl Iterator<Item = String> {
        self.settings.iter().map(|(key, value)| setting_text(key, value))
    }

    /// Returns the packets lost.
    pub(super) fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    fn set_rates(&mut self, before: &Self, seconds: f64) {
        let rate = |now: u64, before: u64| rate(now, before, seconds);
        self.rates = Rates {
            received_pps: rate(self.received_packets, before.received_packets),
            sent_pps: rate(self.counts.sent, before.counts.sent),
            sent_bps: rate(self.counts.sent_bytes, before.counts.sent_bytes) * 8.0,
            dropped_pps: rate(self.dropped(), before.dropped()),
        };
        self.recent_delay_ns_by_band = BandDelay::of(since(&self.delays, &before.delays));
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let earlier = before.queues.get(number).cloned().unwrap_or_default();
            queue.set_rates(&earlier, seconds);
        }
    }
}

/// An identity that only clones share.
#[derive(Debug, Clone, Default)]
pub(super) struct Identity(Arc<()>);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Times of bands, of those alone that have packets: of many ports, most have none.
pub(super) type Bands = Vec<(u8, Latency)>;

/// Returns the bands that have packets.
pub(super) fn bands(by_band: [Latency; BANDS]) -> Bands {
    (0..).zip(by_band).filter(|(_, delay)| delay.packets() > 0).collect()
}

/// Returns the times since `before`, by band.
pub(super) fn since(now: &Bands, before: &Bands) -> Bands {
    let since = |(band, now): &(u8, Latency)| {
        let before = before.iter().find(|(other, _)| other == band);
        (*band, before.map_or_else(|| now.clone(), |(_, before)| now.since(before)))
    };
    now.iter().map(since).collect()
}

/// Returns a rate, to three places. A second run of the same process begins at 0 again.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    (now.saturating_sub(before) as f64 / seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64, sent: u64, sent_bytes: u64) -> Snapshot {
        let path = PathCounters {
            path: "a-b".into(),
            counts: Counts { sent, sent_bytes, ..Counts::default() },
            ..PathCounters::default()
        };
        Snapshot { time_s, paths: vec![path], ..Snapshot::default() }
    }

    #[test]
    fn rates_are_over_the_interval_and_those_of_the_first_line_over_the_run() {
        let first = at(2.0, 100, 6000).with_rates(None);
        assert_eq!((first.paths[0].rates.sent_pps, first.paths[0].rates.sent_bps), (50.0, 24_000.0));
        let second = at(2.5, 150, 9000).with_rates(Some(&first));
        assert_eq!((second.paths[0].rates.sent_pps, second.paths[0].rates.sent_bps), (100.0, 48_000.0));
        assert_eq!((first.rates_over_s, second.rates_over_s), (2.0, 0.5));
        let anew = at(3.0, 10, 600).with_rates(Some(&second));
        assert_eq!(anew.paths[0].rates, Rates::default());
    }
}
