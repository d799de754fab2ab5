use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use wharf::Owners;
use wharf::metrics::MetricKind;
use wharf::qdisc::{Fifo, FifoLimit, WhenFull};
use wharf::queue::Rest;
use wharf::{Direction, Port, Sender, Wait};
use wharf_core::pool::Holder;

/// Bytes of each packet.
const BYTES: u64 = 100;
/// A wait that a fault alone makes this long.
const LONG: Duration = Duration::from_secs(20);

/// The values of a walk by series: name and labels.
struct Series(BTreeMap<String, u64>);

impl Series {
    fn of(path: &Port) -> Self {
        let mut all = BTreeMap::new();
        path.metrics().each(&mut |metric| {
            let labels: Vec<_> =
                metric.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            let series = format!("{}{{{}}}", metric.name, labels.join(","));
            assert!(all.insert(series.clone(), metric.value).is_none(), "{series} twice");
            assert!(metric.labels.contains(&("path", path.name())), "{series}");
            assert!(metric.help.ends_with('.') && !metric.help.contains("  "), "{series}: {}", metric.help);
            assert!(!metric.unit.is_empty());
        });
        Self(all)
    }

    /// Sums up the series of `name` with a label `label`, written `name="value"`.
    fn sum(&self, name: &str, label: &str) -> u64 {
        let of_name = |series: &str| series.split_once('{').is_some_and(|(of, _)| of == name);
        self.0
            .iter()
            .filter(|(series, _)| of_name(series) && series.contains(label))
            .map(|(_, value)| value)
            .sum()
    }

    /// Sums up the sums of a row.
    fn all(&self, row: &[(&str, &str)]) -> u64 {
        row.iter().map(|(name, label)| self.sum(name, label)).sum()
    }
}

/// Sums, each by a metric's name and a label, which add up.
type Row = &'static [(&'static str, &'static str)];

/// Sums that are equal whenever a path is at rest.
const EQUAL: &[(Row, Row)] = &[
    (&[("wharf_pool_frames", "")], &[("wharf_pool_size_frames", "")]),
    (
        &[
            ("wharf_pool_frames", "lanes"),
            ("wharf_pool_frames", "disciplines"),
            ("wharf_pool_frames", "devices"),
            ("wharf_pool_frames", "users"),
        ],
        &[("wharf_pool_held_frames", "")],
    ),
    (&[("wharf_queue_backlog_packets", "")], &[("wharf_pool_frames", "disciplines")]),
    (&[("wharf_queue_device_packets", "")], &[("wharf_pool_frames", "devices")]),
    (&[("wharf_sender_packets", "")], &[("wharf_queue_accepted", ""), ("wharf_pool_frames", "lanes")]),
    (
        &[("wharf_queue_accepted", "")],
        &[
            ("wharf_queue_backlog_packets", ""),
            ("wharf_queue_device_packets", ""),
            ("wharf_queue_sent", ""),
            ("wharf_queue_failed", ""),
            ("wharf_queue_returned", ""),
        ],
    ),
    (&[("wharf_queue_failed", "")], &[("wharf_queue_failures", "reason"), ("wharf_queue_drops", "reason")]),
];

/// Checks all sums, and the pool's places against an audit.
fn assert_adds_up(path: &Port, case: &str) -> Series {
    let audit = path.queue().unwrap().audit();
    let series = Series::of(path);
    let device_bytes = BYTES * series.sum("wharf_queue_device_packets", "");
    assert_eq!(series.sum("wharf_queue_device_bytes", ""), device_bytes, "{case}: {:#?}", series.0);
    for (left, right) in EQUAL {
        assert_eq!(series.all(left), series.all(right), "{case}: {left:?} = {right:?}, {:#?}", series.0);
    }
    let found = |place| audit.held.iter().filter(|held| held.place == place).count() as u64;
    // A wire shows no frame that lies in the ring between its ends: an audit lists it as a user's.
    let places: [(&[_], u64); 3] = [
        (&[("wharf_pool_frames", "lanes")], found(Some(Holder::Lane))),
        (&[("wharf_pool_frames", "disciplines")], found(Some(Holder::Qdisc)) + found(Some(Holder::Requeue))),
        (
            &[("wharf_pool_frames", "devices"), ("wharf_pool_frames", "users")],
            found(Some(Holder::Device)) + found(None),
        ),
    ];
    for (place, frames) in places {
        assert_eq!(series.all(place), frames, "{case}: {place:?}, {audit}");
    }
    assert_eq!(series.sum("wharf_pool_held_frames", ""), audit.held.len() as u64, "{case}: {audit}");
    series
}

fn send(sender: &mut Sender, packets: usize) -> usize {
    let mut burst = sender.burst(packets);
    sender.fill(&mut burst, packets, BYTES as u32, LONG).unwrap();
    sender.send(&mut burst, Wait::Never).unwrap().accepted
}

#[test]
fn path_of_each_kind_then_metrics_add_up_at_each_stage() {
    let cases: [(&str, Direction); 3] =
        [("null", Direction::Send), ("wire:ring=16", Direction::Send), ("wire:rate=1mbit", Direction::Send)];
    for (spec, direction) in cases {
        let fifo = Fifo::new(FifoLimit::Packets(20));
        // The poller would run the queue between a walk and an audit.
        let path = Port::builder(spec, direction).owners(Owners::Senders).qdisc(fifo).build().unwrap();
        assert_adds_up(&path, &format!("{spec}, new"));
        let mut senders = ["first", "second", "second"].map(|name| path.sender(name).unwrap());
        let sent: Vec<_> = senders.iter_mut().map(|sender| send(sender, 64)).collect();
        let kept = senders[0].packet(100, Wait::Never).unwrap();
        let series = assert_adds_up(&path, &format!("{spec}, {sent:?} sent"));
        assert_eq!(series.sum("wharf_sender_packets", "first"), sent[0] as u64);
        assert_eq!(series.sum("wharf_sender_packets", "second"), (sent[1] + sent[2]) as u64);
        assert!(series.sum("wharf_pool_held_frames", "first") > 0, "it has a packet");
        drop((kept, senders));
        path.close(Duration::ZERO);
        let series = assert_adds_up(&path, &format!("{spec}, closed"));
        assert_eq!(series.sum("wharf_queue_backlog_packets", ""), 0);
    }
}

#[test]
fn drops_then_they_are_told_by_reason() {
    let fifo = Fifo::new(FifoLimit::Packets(4)).when_full(WhenFull::DropHead);
    let path = Port::builder("wire:ring=16", Direction::Send).qdisc(fifo).build().unwrap();
    let mut sender = path.sender("test").unwrap();
    (0..8).for_each(|_| _ = send(&mut sender, 32));
    let series = assert_adds_up(&path, "drop-head");
    assert_eq!(series.sum("wharf_queue_drops", "reason"), series.sum("wharf_queue_qdisc_drops", ""));
    assert!(series.sum("wharf_queue_qdisc_drops", "") > 0);
}

#[test]
fn receiver_and_pollers_then_they_are_counted() {
    for served in [false, true] {
        let path = Port::open("wire", Direction::Send).unwrap();
        let far_end = path.far_end().unwrap();
        let mut receiver = if served { far_end.served_receiver() } else { far_end.receiver() }.unwrap();
        let mut sender = path.sender("test").unwrap();
        assert_eq!(send(&mut sender, 32), 32);
        let (mut received, mut packets) = (far_end.burst(64), 0);
        while packets < 32 {
            packets += receiver.recv(&mut received, LONG).unwrap();
            received.clear();
        }
        let series = Series::of(&far_end);
        assert_eq!(series.sum("wharf_receiver_received", ""), 32);
        assert!(series.sum("wharf_receiver_polls", "") > 0);
        assert!(series.sum("wharf_poller_fruitful_polls", "") > 0, "{:#?}", series.0);
        drop(receiver);
        assert_eq!(Series::of(&far_end).sum("wharf_receiver_received", ""), 32, "its queue is gone");
    }
}

/// The counters of a walk.
fn counters(port: &Port) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    port.metrics().each(&mut |metric| {
        if metric.kind == MetricKind::Counter {
            all.insert(format!("{} {:?}", metric.name, metric.labels), metric.value);
        }
    });
    all
}

#[test]
fn receivers_and_pollers_that_come_and_go_then_no_counter_falls_and_none_is_gone() {
    let port = Port::open("wire", Direction::Send).unwrap();
    let far_end = port.far_end().unwrap();
    let mut sender = port.sender("test").unwrap();
    let (mut received, mut before) = (far_end.burst(64), counters(&far_end));
    for round in 0..12 {
        let mut receivers = match round % 3 {
            0 => vec![far_end.receiver().unwrap()],
            1 => vec![far_end.served_receiver().unwrap()],
            _ => far_end.receivers(2, |_| 1).unwrap(),
        };
        send(&mut sender, 32);
        let receiver = receivers.last_mut().unwrap();
        assert!(receiver.recv(&mut received, LONG).unwrap() > 0);
        received.clear();
        for step in 0..3 {
            if step == 1 {
                receivers.clear();
            } else if step == 2 && round == 11 {
                far_end.close(LONG);
            }
            let now = counters(&far_end);
            for (series, value) in before {
                assert!(now.get(&series).is_some_and(|now| *now >= value), "{series} of {value}: {now:#?}");
            }
            before = now;
        }
    }
    let sum =
        |name| before.iter().filter(|(series, _)| series.starts_with(name)).map(|one| one.1).sum::<u64>();
    let (taken, dropped) = (sum("wharf_receiver_taken "), sum("wharf_receiver_drops "));
    assert_eq!(sum("wharf_receiver_received "), taken + dropped);
    assert_eq!(far_end.snapshot().received, taken + dropped);
}

#[test]
fn walk_beside_a_busy_path_then_the_path_keeps_its_owner_and_gauges_stay_bounded() {
    let path = Port::open("wire:ring=64", Direction::Send).unwrap();
    let far_end = path.far_end().unwrap();
    far_end.on_receive(|_| Rest::Free).unwrap();
    let mut sender = path.sender("test").unwrap();
    let frames = u64::from(path.pool().frames());
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| (0..2000).for_each(|_| _ = send(&mut sender, 32)));
        while !sending.is_finished() {
            let series = Series::of(&path);
            for name in
                ["wharf_queue_backlog_packets", "wharf_queue_device_packets", "wharf_pool_held_frames"]
            {
                assert!(series.sum(name, "") <= frames, "{name}: {:#?}", series.0);
            }
        }
    });
    assert!(path.drain(LONG));
    assert_adds_up(&path, "drained");
}

/// Renders the text format of Prometheus: HELP and TYPE once per name.
fn prometheus(path: &Port) -> String {
    let mut by_name: BTreeMap<&'static str, String> = BTreeMap::new();
    path.metrics().each(&mut |metric| {
        let (name, kind) = match metric.kind {
            MetricKind::Counter => (format!("{}_total", metric.name), "counter"),
            MetricKind::Gauge => (metric.name.to_string(), "gauge"),
        };
        let head = || format!("# HELP {name} {} ({})\n# TYPE {name} {kind}\n", metric.help, metric.unit);
        let text = by_name.entry(metric.name).or_insert_with(head);
        let labels: Vec<_> = metric.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        writeln!(text, "{name}{{{}}} {}", labels.join(","), metric.value).unwrap();
    });
    by_name.into_values().collect()
}

#[test]
fn text_of_prometheus_then_each_line_is_of_its_grammar() {
    let path = Port::open("null", Direction::Send).unwrap();
    send(&mut path.sender("a \"b\"").unwrap(), 8);
    let text = prometheus(&path);
    assert!(text.contains("# TYPE wharf_queue_sent_total counter\n"), "{text}");
    assert!(text.contains("wharf_queue_sent_total{path=\"null\",queue=\"null\"} 8\n"), "{text}");
    assert!(text.contains("sender=\"a \\\"b\\\"\"} 8\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte)),
            "{line}"
        );
        assert!(labels.ends_with('}') && value.parse::<u64>().is_ok(), "{line}");
    }
}
