//! `fairness` on this machine, for a few milliseconds a point: every point runs, keeps conservation and ledger, and has its
//! rows. No figure of time is looked at.

use std::collections::BTreeMap;
use wharf_lab::experiment::{Report, Request, World, run};

fn on_host(threads: &[u32], set: &[&str]) -> Report {
    let set = set.iter().map(ToString::to_string).collect();
    let (name, threads) = ("fairness".into(), threads.to_vec());
    let request = Request { name, set, threads, world: Some(World::Host), ..Request::default() };
    run(&request, &mut |_| true).unwrap()
}

/// Figures by label and metric.
fn figures(report: &Report) -> BTreeMap<(&str, &str), f64> {
    report.rows.iter().map(|row| ((row.label.as_str(), row.metric), row.value)).collect()
}

#[test]
fn every_discipline_runs_with_every_policy_on_both_devices() {
    let report = on_host(&[1, 3], &["measure_ms=3", "settle_ms=1", "wire_mbit=10000"]);
    let figures = figures(&report);
    for discipline in ["lanes", "root-lock", "root-lock+busylock", "lockless-list"] {
        for policy in ["unbounded", "jiffy", "quota", "quota+time", "dedicated"] {
            for (threads, device) in [(1, ""), (3, ""), (1, "/wire"), (3, "/wire")] {
                let label = format!("{discipline}/{policy}/threads={threads}{device}");
                let figure = |metric| figures.get(&(label.as_str(), metric)).copied();
                let jain = figure("jain_senders").unwrap_or_else(|| panic!("{label} has no rows"));
                assert!((1.0 / 3.0 - 1e-6..=1.0).contains(&jain), "{label}: {jain}");
                assert_eq!(figure("jain_drained").is_some(), policy != "dedicated", "{label}");
                if policy.starts_with("quota") {
                    assert!(figure("longest_run").unwrap() <= 128.0, "{label}");
                }
                if discipline == "lanes" {
                    assert_eq!(figure("dropped"), Some(0.0), "{label}: lanes wait");
                }
            }
        }
    }
    for quota in [32, 64, 65, 128, 256] {
        let longest = figures[&(format!("lanes/quota={quota}+time/threads=3").as_str(), "longest_run")];
        assert!(longest <= f64::from(quota), "{quota}: {longest}");
    }
    assert!(report.rows.iter().all(|row| row.by_thread.is_empty() || matches!(row.by_thread.len(), 1 | 3)));
}

#[test]
fn only_the_default_can_be_asked_for_and_a_poller_beside_it() {
    let set = ["only_default=1", "poller=1", "measure_ms=3", "settle_ms=1", "burst=32"];
    let report = on_host(&[2], &set);
    let labels: Vec<_> =
        report.rows.iter().filter(|row| row.metric == "mpps").map(|row| &row.label).collect();
    assert_eq!(labels, ["lanes/quota+time/threads=2", "lanes/quota+time/threads=2/wire"]);
}

#[test]
fn a_run_that_is_to_end_ends_at_once() {
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
