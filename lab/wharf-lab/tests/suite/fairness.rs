//! `fairness` on this machine, for a few milliseconds a point: every point runs, keeps conservation and
//! ledger, and has its rows. No figure of time is checked.

use std::collections::BTreeMap;
use wharf_lab::experiment::{Report, Request, Row, World, run};

fn on_host(threads: &[u32], set: &[&str]) -> Report {
    let set = set.iter().map(ToString::to_string).collect();
    let (name, threads) = ("fairness".into(), threads.to_vec());
    let request = Request { name, set, threads, world: Some(World::Host), ..Request::default() };
    run(&request, &mut |_| true).unwrap()
}

/// Returns the rows by device, label and metric, each unique.
fn rows<'a>(report: &'a Report) -> BTreeMap<(&'a str, &'a str, &'a str), &'a Row> {
    let key = |row: &'a Row| (row.device.as_deref().unwrap(), row.label.as_str(), row.metric);
    let rows: BTreeMap<_, _> = report.rows.iter().map(|row| (key(row), row)).collect();
    assert_eq!(rows.len(), report.rows.len());
    rows
}

/// Metrics with a figure per thread.
const BY_THREAD: [&str; 7] = [
    "sent",
    "dropped",
    "processor_time",
    "drained",
    "drained_for_others_packets",
    "dequeue_time",
    "dequeue_runs",
];
/// Percentiles of a thread's times in the dequeue region, least first.
const TIMES: [&str; 4] = ["dequeue_run_p50", "dequeue_run_p99", "dequeue_run_p999", "dequeue_run_max"];

#[test]
fn every_discipline_runs_with_every_policy_on_both_devices() {
    let report = on_host(&[1, 3], &["measure_ms=3", "settle_ms=1", "wire_mbit=10000"]);
    let rows = rows(&report);
    for discipline in ["lanes", "root-lock", "root-lock+busylock", "lockless-list"] {
        for policy in ["unbounded", "jiffy", "quota", "quota+time", "dedicated"] {
            for (threads, device) in
                [(1, "null"), (3, "null"), (1, "wire:rate=10000mbit"), (3, "wire:rate=10000mbit")]
            {
                let label = format!("{discipline}/{policy}/threads={threads}");
                let row = |metric| rows.get(&(device, label.as_str(), metric)).copied();
                let figure = |metric| row(metric).map(|row| row.value);
                let jain = figure("jain_senders").unwrap_or_else(|| panic!("{label} has no rows"));
                assert!((1.0 / 3.0 - 1e-6..=1.0).contains(&jain), "{label}: {jain}");
                assert_eq!(figure("jain_drained").is_some(), policy != "dedicated", "{label}");
                if policy.starts_with("quota") {
                    assert!(figure("longest_run").unwrap() <= 128.0, "{label}");
                }
                if discipline == "lanes" {
                    assert_eq!(figure("dropped"), Some(0.0), "{label}: lanes wait");
                }
                let by_thread = |metric| row(metric).map(|row| row.by_thread.clone());
                for metric in BY_THREAD.into_iter().filter(|&metric| metric != "dequeue_runs") {
                    assert_eq!(by_thread(metric).map(|each| each.len()), Some(threads), "{label}: {metric}");
                }
                assert_runs(policy, threads, &by_thread);
            }
        }
    }
    for quota in [32, 64, 65, 128, 256] {
        let longest =
            rows[&("null", format!("lanes/quota={quota}+time/threads=3").as_str(), "longest_run")].value;
        assert!(longest <= f64::from(quota), "{quota}: {longest}");
    }
    assert!(report.rows.iter().all(|row| row.by_thread.is_empty() || matches!(row.by_thread.len(), 1 | 3)));
}

/// Checks that a thread that drained was in the dequeue region, and that its percentiles go up.
fn assert_runs(policy: &str, threads: usize, by_thread: &dyn Fn(&'static str) -> Option<Vec<f64>>) {
    let times: Vec<_> = TIMES.into_iter().filter_map(by_thread).collect();
    if policy == "dedicated" {
        // Senders drain nothing, unless they begin before the owner does.
        assert_eq!(times.len(), 0);
        return;
    }
    let each = |metric| by_thread(metric).unwrap();
    let (drained, for_others) = (each("drained"), each("drained_for_others_packets"));
    assert_eq!(times.len(), TIMES.len());
    for (thread, &drained) in drained.iter().enumerate() {
        let times: Vec<f64> = times.iter().map(|each| each[thread]).collect();
        assert!(times.is_sorted(), "{policy}, thread {thread}: {times:?}");
        assert!(drained == 0.0 || each("dequeue_runs")[thread] > 0.0, "{policy}, thread {thread}");
        assert!(threads > 1 || for_others[thread] == 0.0, "{policy}: there is no other thread");
    }
}

#[test]
fn default_only_with_a_poller_runs() {
    let set = ["only_default=1", "poller=1", "measure_ms=3", "settle_ms=1", "burst=32"];
    let report = on_host(&[2], &set);
    let mpps = report.rows.iter().filter(|row| row.metric == "mpps");
    let of: Vec<_> = mpps.map(|row| (row.label.as_str(), row.device.as_deref().unwrap())).collect();
    let label = "lanes/quota+time/threads=2";
    assert_eq!(of, [(label, "null"), (label, "wire:rate=1000mbit")]);
}

#[test]
fn interrupted_run_ends_at_once() {
    let request = Request {
        name: "fairness".into(),
        world: Some(World::Host),
        duration_ns: Some(3_600_000_000_000),
        ..Request::default()
    };
    let mut asked = 0;
    let report = run(&request, &mut |_| {
        asked += 1;
        asked < 3
    });
    let report = report.unwrap();
    assert!(report.interrupted && report.rows.is_empty());
}
