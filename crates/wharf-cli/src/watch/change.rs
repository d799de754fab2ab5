//! `Change`: a setting of a running direction, and how it comes into force.
//!
//! All changes of one request are checked before the first is made. The library makes each under traffic
//! ([`TxQueue::set_qdisc`](wharf::TxQueue::set_qdisc) and its neighbours): packets inside stay, or are counted as dropped.

use super::board::Running;
use crate::args::{self, SmallQueues, WhenFull};
use crate::forward::policy::{own_when_full, short_packets};
use std::collections::BTreeMap;
use std::mem::discriminant;
use wharf::bql::Bounds;
use wharf::device::PATIENCE;
use wharf::engine::Batching;
use wharf::pool::PagePool;
use wharf::qdisc::{FifoLimit, QdiscRegistry, QdiscSpec, Rate, Tbf};
use wharf_tools::forward::MakeQdisc;

/// The keys of `wharf set`, for errors. Those that an option of `forward` has another name for have both.
pub(super) const KEYS: &str =
    "rate, burst (or bucket), bql, batching (or batch), qdisc, small-queues and when-full";

/// One setting, and its new value.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Most bits or packets per second; none for as many as there is room for.
    Rate(Option<Rate>),
    /// Bytes that may leave at once after a pause; none for those that the rate comes with.
    Burst(Option<u64>),
    Bql(Bounds),
    Batching(Batching),
    Qdisc(QdiscSpec),
    SmallQueues(SmallQueues),
    WhenFull(WhenFull),
    /// `when-full` goes with the discipline from now on, or does not: of a reload alone.
    WhenFullFollows(bool),
}

/// The settings of a direction that may be changed while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) rate: Option<Rate>,
    pub(crate) burst: Option<u64>,
    pub(crate) bql: Bounds,
    pub(crate) batching: Batching,
    /// The discipline that was asked for.
    pub(crate) qdisc: QdiscSpec,
    /// A discipline that drops and has no limit of its own gets a short one.
    pub(crate) is_shortened: bool,
    pub(crate) when_full: WhenFull,
    /// It goes with the discipline, since none was asked for.
    pub(crate) when_full_follows: bool,
    pub(crate) small_queues: SmallQueues,
    /// Changes of the rate since the start.
    pub(crate) rate_changes: u32,
}

impl Change {
    /// Reads `KEY=VALUE` or `PATH.KEY=VALUE`. Returns the path that it names, too.
    pub(super) fn parse(text: &str) -> Result<(Option<&str>, Self), String> {
        let wrong = || format!("\"{}\": want KEY=VALUE; the keys are {KEYS}", text.escape_debug());
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let (path, key) = name.split_once('.').map_or((None, name), |(path, key)| (Some(path), key));
        let change = match key {
            "rate" if value == "off" => Ok(Self::Rate(None)),
            "rate" => args::bucket_rate(value).map(|rate| Self::Rate(Some(rate))),
            "burst" | "bucket" => args::token_bytes(value).map(|bytes| Self::Burst(Some(bytes))),
            "bql" => args::byte_limits(value).map(Self::Bql),
            "batching" | "batch" => args::batching(value).map(Self::Batching),
            "qdisc" => {
                let read = QdiscRegistry::default().parse(value);
                read.map(Self::Qdisc).map_err(|error| error.to_string())
            }
            "small-queues" => args::small_queues(value).map(Self::SmallQueues),
            "when-full" => WhenFull::parse(value).map(Self::WhenFull),
            key => return Err(format!("\"{}\" is no key: there are {KEYS}", key.escape_debug())),
        };
        Ok((path, change.map_err(|error| format!("{key}={}: {error}", value.escape_debug()))?))
    }
}

impl Change {
    fn key(&self) -> &'static str {
        match self {
            Self::Rate(_) => "rate",
            Self::Burst(_) => "burst",
            Self::Bql(_) => "bql",
            Self::Batching(_) => "batching",
            Self::Qdisc(_) => "qdisc",
            Self::SmallQueues(_) => "small-queues",
            Self::WhenFull(_) | Self::WhenFullFollows(_) => "when-full",
        }
    }
}

impl Settings {
    /// Returns the token bucket's rate.
    pub(crate) fn bucket(&self) -> Option<Rate> {
        let rate = self.rate?;
        Some(self.burst.map_or(rate, |bytes| rate.burst(bytes)))
    }

    /// Returns the discipline, with a limit that goes with the rate if it needs a short one.
    pub(crate) fn limited_qdisc(&self) -> QdiscSpec {
        let short = || short_packets(self.rate.map(|rate| rate.bits_per_second()));
        if self.is_short() { self.qdisc.clone().or_limit(short()) } else { self.qdisc.clone() }
    }

    fn is_short(&self) -> bool {
        self.is_shortened && self.when_full != WhenFull::Wait
    }

    /// Returns a maker of the discipline, behind a token bucket if there is a rate.
    pub(crate) fn make_qdisc(&self) -> MakeQdisc {
        let (qdisc, when_full, rate) = (self.limited_qdisc(), self.when_full, self.bucket());
        Box::new(move |_: &PagePool| match rate {
            Some(rate) => Box::new(Tbf::new(qdisc.build(when_full.setup()), rate)),
            None => qdisc.build(when_full.setup()),
        })
    }

    /// Returns the settings with `change`, if `path` can have them.
    fn with(mut self, change: &Change, path: &Running) -> Result<Self, String> {
        match change {
            Change::Rate(_) | Change::Burst(_) if path.direction.is_none() => {
                return Err("rate, burst: only a forwarder has a rate to change".into());
            }
            Change::Rate(Some(_)) if path.queues.len() > 1 => {
                return Err(
                    "rate: is for one queue, whose bucket all frames pass, and this run has several".into()
                );
            }
            Change::Rate(rate) => {
                self.rate_changes += u32::from(self.rate != *rate);
                self.rate = *rate;
                self.burst = self.burst.filter(|_| rate.is_some());
            }
            Change::Burst(_) if self.rate.is_none() => {
                return Err("burst: there is no rate: set rate=RATE with it".into());
            }
            Change::Burst(bytes) => self.burst = *bytes,
            Change::Bql(_) if !path.can_limit => {
                return Err(
                    "bql: the device does not say when packets have left, so it has no byte limit".into()
                );
            }
            Change::Bql(bounds) => self.bql = *bounds,
            Change::Batching(batching) => self.batching = *batching,
            Change::Qdisc(qdisc) => {
                if self.when_full_follows && self.when_full != WhenFull::Wait {
                    self.when_full = own_when_full(qdisc);
                }
                self.qdisc = self.fitted(qdisc, path);
            }
            Change::SmallQueues(small_queues) => self.small_queues = *small_queues,
            Change::WhenFull(WhenFull::DropTail) if path.direction.is_none() && path.queues.len() > 1 => {
                return Err("when-full: drop-tail is for one queue, and this run has several".into());
            }
            Change::WhenFull(when_full) => {
                (self.when_full, self.when_full_follows) = (*when_full, false);
                self.qdisc = self.fitted(&self.qdisc, path);
            }
            Change::WhenFullFollows(follows) => self.when_full_follows = *follows,
        }
        Ok(self)
    }

    /// Returns the changes that lead from the settings `now` to these.
    pub(super) fn changes_from(&self, now: &Self) -> Vec<Change> {
        let (texts, now_texts) = (self.texts(), now.texts());
        let differs = |key: &str| texts.get(key) != now_texts.get(key);
        let mut changes = Vec::new();
        if differs("rate") || differs("burst") {
            changes.push(Change::Rate(self.rate));
            changes.extend(self.rate.map(|_| Change::Burst(self.burst)));
        }
        changes.extend(differs("bql").then_some(Change::Bql(self.bql)));
        changes.extend(differs("batching").then_some(Change::Batching(self.batching)));
        changes.extend(differs("qdisc").then(|| Change::Qdisc(self.qdisc.clone())));
        changes.extend(differs("small-queues").then_some(Change::SmallQueues(self.small_queues)));
        // Another discipline would bring a way of its own.
        let is_set = differs("when-full") || differs("qdisc");
        changes.extend(is_set.then_some(Change::WhenFull(self.when_full)));
        let is_other = is_set || self.when_full_follows != now.when_full_follows;
        changes.extend(is_other.then_some(Change::WhenFullFollows(self.when_full_follows)));
        changes
    }

    /// Returns the settings with all of `changes`, in whatever order they are named.
    pub(super) fn with_all(self, changes: &[Change], path: &Running) -> Result<Self, String> {
        // The limit of a discipline depends on these.
        let (first, others): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| matches!(change, Change::Rate(_) | Change::WhenFull(_)));
        let all = || first.iter().chain(&others);
        let is_twice =
            |change: &Change| all().filter(|other| discriminant(**other) == discriminant(change)).count() > 1;
        if let Some(change) = all().find(|change| is_twice(change)) {
            return Err(format!("{}: is given twice for {}", change.key(), path.path));
        }
        let settings = all().try_fold(self, |settings, change| settings.with(change, path))?;
        let (packets, room) = (settings.limited_qdisc().packets(), room_packets(path));
        match packets > room {
            true => Err(format!(
                "qdisc: it holds {packets} packets, and this run has memory for {room}: name a limit, or start with more --frames"
            )),
            false => Ok(settings),
        }
    }

    /// Returns the discipline; one without a limit gets one that memory can hold.
    fn fitted(&self, qdisc: &QdiscSpec, path: &Running) -> QdiscSpec {
        let room = room_packets(path);
        if self.is_short() || qdisc.packets() <= room {
            return qdisc.clone();
        }
        // A limit may be of each band.
        let limited = (1..=8).map(|bands| qdisc.clone().or_limit(room / bands));
        limited.into_iter().find(|limited| limited.packets() <= room).unwrap_or_else(|| qdisc.clone())
    }

    /// Puts into force what `changes` have changed in these settings.
    pub(super) fn put_in_force(&self, changes: &[Change], path: &Running) {
        let is_any = |which: fn(&Change) -> bool| changes.iter().any(which);
        if is_any(|change| matches!(change, Change::Bql(_))) {
            path.queues.iter().for_each(|queue| queue.set_byte_limits(self.bql));
        }
        if is_any(|change| matches!(change, Change::Batching(_))) {
            path.queues.iter().for_each(|queue| queue.set_batching(self.batching));
        }
        if is_any(|change| matches!(change, Change::SmallQueues(_))) {
            path.queues.iter().for_each(|queue| queue.set_small_queues(self.small_queues.0));
        }
        if is_any(|change| matches!(change, Change::WhenFull(_) | Change::Qdisc(_))) {
            path.queues.iter().for_each(|queue| {
                queue.set_drop_tail(self.when_full == WhenFull::DropTail);
                queue.set_patience((self.when_full != WhenFull::Wait).then_some(PATIENCE));
            });
        }
        let has_rate = is_any(|change| matches!(change, Change::Rate(_) | Change::Burst(_)));
        let before = path.settings();
        let had_rate = before.as_ref().is_some_and(|before| before.rate.is_some());
        // A discipline drops its oldest packets or it does not, for as long as it lives.
        let limit = |settings: &Self| {
            (qdisc_text(&settings.limited_qdisc()), settings.when_full == WhenFull::DropHead)
        };
        let is_other = is_any(|change| matches!(change, Change::Qdisc(_)))
            || before.is_some_and(|before| limit(&before) != limit(self));
        match self.bucket().filter(|_| had_rate && !is_other) {
            // The bucket stays, and all that waits behind it.
            Some(rate) if has_rate => path.queues.iter().for_each(|queue| queue.set_rate(rate)),
            Some(_) => {}
            None if has_rate || is_other => path.set_qdisc(&self.make_qdisc()),
            None => {}
        }
    }

    /// Returns the settings by key, as `wharf set` takes them.
    pub(super) fn texts(&self) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        let mut add = |key: &str, text: String| texts.insert(key.to_string(), text);
        add("qdisc", qdisc_text(&self.limited_qdisc()));
        add("bql", bql_text(self.bql));
        add("batching", batching_text(self.batching));
        add("small-queues", self.small_queues.0.map_or_else(|| "off".into(), |bytes| bytes.to_string()));
        add("when-full", self.when_full.word());
        if let Some(rate) = self.bucket() {
            let bits = || format!("{}bit", rate.bits_per_second());
            add("rate", rate.packets_per_second().map_or_else(bits, |packets| format!("{packets}pps")));
            add("burst", rate.burst_bytes().to_string());
        }
        texts
    }
}

/// Returns the packets that a discipline may hold: the other half of the memory is for arrivals and devices.
fn room_packets(path: &Running) -> usize {
    path.queues.iter().map(|queue| queue.pool().frames() as usize / 2).min().unwrap_or(0)
}

fn qdisc_text(qdisc: &QdiscSpec) -> String {
    let name = qdisc.kind().name;
    let options = qdisc.options();
    let given: Vec<String> = options
        .given()
        .map(|key| format!("{}={}", key.name, options.text(key.name).unwrap_or_default()))
        .collect();
    match qdisc.limit() {
        Some(FifoLimit::Packets(packets)) => format!("{name}:{packets}"),
        Some(FifoLimit::Bytes(bytes)) => format!("{name}:{bytes}B"),
        None if given.is_empty() => name.into(),
        None => format!("{name}:{}", given.join(",")),
    }
}

fn bql_text(bounds: Bounds) -> String {
    match bounds {
        Bounds::LEARN => "on".into(),
        Bounds::OFF => "off".into(),
        Bounds { min_bytes, max_bytes } if max_bytes == Bounds::LEARN.max_bytes => format!("min={min_bytes}"),
        Bounds { min_bytes: 0, max_bytes } => format!("max={max_bytes}"),
        Bounds { min_bytes, max_bytes } => format!("min={min_bytes},max={max_bytes}"),
    }
}

fn batching_text(batching: Batching) -> String {
    match batching {
        Batching::On => "on".into(),
        Batching::Off => "off".into(),
        Batching::Bytes(bytes) => format!("bytes={bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_keys_and_values_say_what_there_is() {
        for (text, what) in [
            ("rate", "want KEY=VALUE; the keys are rate, burst"),
            (
                "speed=1",
                "\"speed\" is no key: there are rate, burst (or bucket), bql, batching (or batch), qdisc, small-queues and when-full",
            ),
            ("a-b.spede=1", "\"spede\" is no key"),
            ("rate=fast", "rate=fast: want a rate from 8kbit"),
            ("bql=64k", "want on, off, min=SIZE"),
            ("batching=maybe", "want on, off or bytes=N"),
            ("qdisc=fast", "\"fast\": want fifo"),
            ("qdisc=fifo:0", "want a limit of 1"),
            ("small-queues=1", "small-queues=1: want on, off or a size from 4k"),
            ("when-full=never", "when-full=never: want wait, drop-tail or drop-head"),
        ] {
            let error = Change::parse(text).unwrap_err();
            assert!(error.contains(what) && error.lines().count() == 1, "{text}: {error}");
        }
        assert!(matches!(Change::parse("b-a.rate=off"), Ok((Some("b-a"), Change::Rate(None)))));
        assert!(matches!(Change::parse("batch=off"), Ok((None, Change::Batching(Batching::Off)))));
        assert!(matches!(Change::parse("bucket=20k"), Ok((None, Change::Burst(Some(20_000 | 20_480))))));
    }

    #[test]
    fn settings_are_shown_as_they_are_set() {
        for text in ["fifo:20", "prio:limit=9", "fq_codel", "fq_codel:limit=7,target=3ms"] {
            assert_eq!(qdisc_text(&QdiscRegistry::default().parse(text).unwrap()), text);
        }
        for text in ["on", "off", "min=4096", "max=65536", "min=4096,max=65536"] {
            assert_eq!(bql_text(args::byte_limits(text).unwrap()), text);
        }
        for text in ["on", "off", "bytes=16384"] {
            assert_eq!(batching_text(args::batching(text).unwrap()), text);
        }
    }
}
