//! `Change`: a setting of a running direction.
//!
//! All changes of one request are checked before the first is made. The library makes each under traffic
//! ([`TxQueue::set_qdisc`](wharf::queue::TxQueue::set_qdisc) and its neighbours): packets inside stay, or are counted as dropped.

use crate::args::{self, ForwardArgs, SmallQueues, WhenFull};
use crate::forward::policy::{FRAME_BITS, Policy, short_packets};
use crate::output::time;
use std::collections::BTreeMap;
use wharf::qdisc::{FifoLimit, Order, Qdisc, QdiscRegistry, QdiscSpec, Rate, RateGroup, Tbf};
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::pool::PagePool;

/// Time that a full discipline without an AQM may hold up a packet before the user is warned.
const LONG_MS: u64 = 500;

/// The keys of `wharf set`, for errors. Those that an option of `forward` has another name for have both.
pub(super) const KEYS: &str =
    "rate, burst (or bucket), bql, batching (or batch), qdisc, small-queues, when-full and link";

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
    /// The line is up for the device's other side.
    Link(bool),
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
    /// The line is up for the device's other side; `None` if it cannot be taken down.
    pub(crate) link: Option<bool>,
    /// Changes of the rate since the start.
    pub(crate) rate_changes: u32,
}

/// Makes the discipline of one queue, for frames of a pool.
pub(super) type MakeQdisc = Box<dyn Fn(&PagePool) -> Box<dyn Qdisc>>;

impl Change {
    /// Reads `KEY=VALUE` or `PATH.KEY=VALUE`, a discipline by `qdiscs`. Returns the path or device that it names, too.
    pub(super) fn parse<'a>(
        text: &'a str, qdiscs: &QdiscRegistry,
    ) -> Result<(Option<&'a str>, Self), String> {
        let wrong = || format!("\"{}\": want KEY=VALUE; the keys are {KEYS}", text);
        let (name, value) = split(text).ok_or_else(wrong)?;
        let (path, key) = name.rsplit_once('.').map_or((None, name), |(path, key)| (Some(path), key));
        let change = match key {
            "rate" if value == "off" => Ok(Self::Rate(None)),
            "rate" => args::bucket_rate(value).map(|rate| Self::Rate(Some(rate))),
            "burst" | "bucket" => args::token_bytes(value).map(|bytes| Self::Burst(Some(bytes))),
            "bql" => args::byte_limits(value).map(Self::Bql),
            "batching" | "batch" => args::batching(value).map(Self::Batching),
            "qdisc" => qdiscs.parse(value).map(Self::Qdisc).map_err(|error| error.to_string()),
            "small-queues" => args::small_queues(value).map(Self::SmallQueues),
            "when-full" => WhenFull::parse(value).map(Self::WhenFull),
            "link" if ["up", "down"].contains(&value) => Ok(Self::Link(value == "up")),
            "link" => Err("want up or down".into()),
            key => return Err(format!("\"{}\" is no key: there are {KEYS}", key)),
        };
        Ok((path, change.map_err(|error| format!("{key}={}: {error}", value))?))
    }
}

/// Returns what is before the `=` behind a key, and what is behind it: a device's name may have one, too.
fn split(text: &str) -> Option<(&str, &str)> {
    const NAMES: [&str; 10] =
        ["rate", "burst", "bucket", "bql", "batching", "batch", "qdisc", "small-queues", "when-full", "link"];
    let all = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let is_of_key =
        |(name, _): &(&str, &str)| NAMES.contains(&name.rsplit_once('.').map_or(*name, |(_, key)| key));
    all.clone().find(is_of_key).or_else(|| all.clone().next())
}

impl Change {
    /// Reads several, each as [`Change::parse`] does.
    pub(super) fn parse_all<'a>(
        texts: &'a [String], qdiscs: &QdiscRegistry,
    ) -> Result<Vec<(Option<&'a str>, Self)>, String> {
        texts.iter().map(|text| Self::parse(text, qdiscs)).collect()
    }

    /// Checks several, of a run whose paths have these `names`, and leave by `devices`.
    pub(crate) fn check_all(
        texts: &[String], names: &[String], devices: &[String], qdiscs: &QdiscRegistry,
    ) -> Result<(), String> {
        let changes = Self::parse_all(texts, qdiscs)?;
        let is_none = |name: &&str| !names.iter().chain(devices).any(|there| there == name);
        match changes.iter().filter_map(|(path, _)| *path).find(is_none) {
            Some(name) if names.is_empty() => Err(format!("\"{name}\" is no path: there is none")),
            Some(name) => Err(format!("\"{name}\" is no path: there is {}", names.join(", "))),
            None => Ok(()),
        }
    }

    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Rate(_) => "rate",
            Self::Burst(_) => "burst",
            Self::Bql(_) => "bql",
            Self::Batching(_) => "batching",
            Self::Qdisc(_) => "qdisc",
            Self::SmallQueues(_) => "small-queues",
            Self::Link(_) => "link",
            Self::WhenFull(_) | Self::WhenFullFollows(_) => "when-full",
        }
    }
}

impl Settings {
    /// Returns the settings that a direction of a forwarder begins with.
    pub(crate) fn of_forwarder(args: &ForwardArgs, policy: &Policy) -> Self {
        Self {
            rate: args.rate,
            burst: args.bucket,
            bql: args.bql,
            batching: args.batch,
            qdisc: policy.qdisc.clone(),
            is_shortened: true,
            when_full: policy.when_full,
            when_full_follows: args.when_full.is_none(),
            small_queues: args.small_queues.unwrap_or(SmallQueues(None)),
            link: None,
            rate_changes: 0,
        }
    }

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

    pub(super) fn is_short(&self) -> bool {
        self.is_shortened && self.when_full != WhenFull::Wait
    }

    /// Returns the long queue that these settings let stand, in words: where nothing drops, or much has room.
    pub(crate) fn standing_queue(&self) -> Option<String> {
        let (qdisc, rate) = (self.limited_qdisc(), self.rate);
        let (packets, flows) = (qdisc.packets(), qdisc.kind().order == Order::Flow);
        let time_ms = rate.map(|rate| packets as u64 * FRAME_BITS * 1000 / rate.bits_per_second());
        let time = time_ms.map_or(String::new(), |ms| format!(", {} at this rate", time(ms * 1_000_000)));
        let has_room = format!("up to {packets} packets wait{time}");
        if self.when_full == WhenFull::Wait {
            let is_asked = !self.when_full_follows && (rate.is_some() || qdisc.kind().name != "fifo");
            return is_asked.then(|| format!("when-full=wait: the discipline drops nothing: {has_room}; further ones wait in the receiving device's ring, urgent ones behind others"));
        }
        let is_long = !flows && time_ms.is_some_and(|ms| ms >= LONG_MS);
        is_long.then(|| format!("qdisc={}: {has_room}", qdisc_text(&qdisc)))
    }

    /// Returns, in words, that nothing bounds what the device's ring holds.
    pub(super) fn full_ring(&self) -> Option<String> {
        let is_full = self.bql.is_off() && self.small_queues.0.is_none() && self.rate.is_none();
        is_full.then(|| "bql=off: the device's ring fills: urgent packets wait behind all of it".into())
    }

    /// Returns a maker of the disciplines of a direction's queues, behind token buckets that share the rate
    /// if there is one.
    pub(crate) fn make_qdisc(&self) -> MakeQdisc {
        let (qdisc, when_full, rate) = (self.limited_qdisc(), self.when_full, self.bucket());
        let group = RateGroup::default();
        Box::new(move |_: &PagePool| match rate {
            Some(rate) => Box::new(Tbf::new(qdisc.build(when_full.setup()), rate).in_group(&group)),
            None => qdisc.build(when_full.setup()),
        })
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
        changes.extend(self.link.filter(|_| differs("link")).map(Change::Link));
        // Another discipline would bring a way of its own.
        let is_set = differs("when-full") || differs("qdisc");
        changes.extend(is_set.then_some(Change::WhenFull(self.when_full)));
        let is_other = is_set || self.when_full_follows != now.when_full_follows;
        changes.extend(is_other.then_some(Change::WhenFullFollows(self.when_full_follows)));
        changes
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
        if let Some(is_up) = self.link {
            add("link", if is_up { "up" } else { "down" }.into());
        }
        if let Some(rate) = self.bucket() {
            let bits = || format!("{}bit", rate.bits_per_second());
            add("rate", rate.packets_per_second().map_or_else(bits, |packets| format!("{packets}pps")));
            add("burst", rate.burst_bytes().to_string());
        }
        texts
    }
}

/// Returns a setting as a reader gives it: the bucket by the name of its option, a rate in its unit.
pub(super) fn setting_text(key: &str, value: &str) -> String {
    let (key, bits) = (if key == "burst" { "bucket" } else { key }, value.strip_suffix("bit"));
    let in_unit = |(zeros, unit)| Some(format!("{}{unit}bit", bits?.strip_suffix(zeros)?));
    let short = [("000000000", "g"), ("000000", "m"), ("000", "k")].into_iter().find_map(in_unit);
    format!("{key}={}", short.filter(|_| key == "rate").unwrap_or_else(|| value.into()))
}

pub(super) fn qdisc_text(qdisc: &QdiscSpec) -> String {
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
    let Bounds { min_bytes, max_bytes, gather_ns } = bounds;
    if bounds.is_off() {
        return "off".into();
    }
    let most = (max_bytes != Bounds::LEARN.max_bytes).then_some(max_bytes);
    let parts = [
        (min_bytes > 0).then(|| format!("min={min_bytes}")),
        most.map(|bytes| format!("max={bytes}")),
        (gather_ns > 0).then(|| format!("gather={gather_ns}ns")),
    ];
    let given = parts.into_iter().flatten().collect::<Vec<_>>().join(",");
    if given.is_empty() { "on".into() } else { given }
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

    fn parse(text: &str) -> Result<(Option<&str>, Change), String> {
        Change::parse(text, &QdiscRegistry::default())
    }

    #[test]
    fn wrong_keys_and_values_say_what_there_is() {
        for (text, what) in [
            ("rate", "want KEY=VALUE; the keys are rate, burst"),
            (
                "speed=1",
                "\"speed\" is no key: there are rate, burst (or bucket), bql, batching (or batch), qdisc, small-queues, when-full and link",
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
            let error = parse(text).unwrap_err();
            assert!(error.contains(what) && error.lines().count() == 1, "{text}: {error}");
        }
        assert!(matches!(parse("b-a.rate=off"), Ok((Some("b-a"), Change::Rate(None)))));
        for device in ["vhost-user:/run/g.1.sock", "vhost-user:fd=5"] {
            let text = format!("{device}.qdisc=fq_codel:limit=7");
            assert!(matches!(parse(&text), Ok((Some(path), Change::Qdisc(_))) if path == device));
        }
        assert!(matches!(parse("batch=off"), Ok((None, Change::Batching(Batching::Off)))));
        assert!(matches!(parse("bucket=20k"), Ok((None, Change::Burst(Some(20_000 | 20_480))))));
    }

    #[test]
    fn a_direction_has_the_name_of_its_path_and_of_the_device_that_it_leaves_by() {
        let [names, devices] = [["p1", "p2"], ["tap:a.b", "null"]].map(|all| all.map(String::from));
        let check =
            |text: &str| Change::check_all(&[text.into()], &names, &devices, &QdiscRegistry::default());
        let known = ["p2.rate=1mbit", "tap:a.b.rate=1mbit", "null.link=down", "bql=off"];
        assert!(known.iter().all(|text| check(text).is_ok()));
        assert_eq!(check("tap:a.rate=1mbit").unwrap_err(), "\"tap:a\" is no path: there is p1, p2");
        let of_none = Change::check_all(&["p9.bql=off".into()], &[], &[], &QdiscRegistry::default());
        assert_eq!(of_none.unwrap_err(), "\"p9\" is no path: there is none");
        assert!(check("p1.link=off").unwrap_err().contains("want up or down"));
    }

    #[test]
    fn a_long_queue_is_told() {
        let told = |qdisc: &str, rate: Option<u64>, when_full| {
            let settings = Settings {
                rate: rate.map(Rate::new),
                burst: None,
                bql: Bounds::LEARN,
                batching: Batching::On,
                qdisc: QdiscRegistry::default().parse(qdisc).unwrap(),
                is_shortened: true,
                when_full,
                when_full_follows: false,
                small_queues: SmallQueues(None),
                link: None,
                rate_changes: 0,
            };
            settings.standing_queue().unwrap_or_default()
        };
        let waits = told("fq_codel:limit=8192", Some(20_000_000), WhenFull::Wait);
        assert!(waits.contains("drops nothing: up to 8192 packets wait, 4.96 s at this rate;"), "{waits}");
        assert!(told("prio", None, WhenFull::Wait).contains("packets wait; further ones"));
        assert_eq!(
            told("fifo:1000", Some(20_000_000), WhenFull::DropTail),
            "qdisc=fifo:1000: up to 1000 packets wait, 605.0 ms at this rate"
        );
        for (qdisc, rate, when_full) in [
            ("fifo", None, WhenFull::Wait),
            ("fifo:500", Some(20_000_000), WhenFull::DropTail),
            ("fifo", Some(20_000_000), WhenFull::DropTail),
            ("fq_codel:limit=8192", Some(20_000_000), WhenFull::DropHead),
        ] {
            assert_eq!(told(qdisc, rate, when_full), "", "{qdisc}");
        }
    }

    #[test]
    fn settings_are_shown_as_they_are_set() {
        for (key, value, shown) in [
            ("rate", "20000000bit", "rate=20mbit"),
            ("rate", "1500000bit", "rate=1500kbit"),
            ("rate", "10000000000bit", "rate=10gbit"),
            ("rate", "8001bit", "rate=8001bit"),
            ("rate", "20000pps", "rate=20000pps"),
            ("burst", "3028", "bucket=3028"),
            ("bql", "max=64000", "bql=max=64000"),
        ] {
            assert_eq!(setting_text(key, value), shown);
            assert!(parse(shown).is_ok(), "{shown}");
        }
        for text in ["fifo:20", "prio:limit=9", "fq_codel", "fq_codel:limit=7,target=3ms"] {
            assert_eq!(qdisc_text(&QdiscRegistry::default().parse(text).unwrap()), text);
        }
        for text in ["on", "off", "min=4096", "max=65536", "min=4096,max=65536", "gather=100000ns"] {
            assert_eq!(bql_text(args::byte_limits(text).unwrap()), text);
        }
        for text in ["on", "off", "bytes=16384"] {
            assert_eq!(batching_text(args::batching(text).unwrap()), text);
        }
    }
}
