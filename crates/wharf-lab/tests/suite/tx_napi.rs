//! `tx-napi` on this machine, for some milliseconds a run: every load runs in every mode, all memory returns
//! (or the run fails), and each has its rows. No figure of time is checked.

use wharf_lab::experiment::{Report, Request, World, run};

fn run_short(set: &[&str]) -> Report {
    let set = set.iter().map(ToString::to_string).collect();
    run(&Request { name: "tx-napi".into(), set, world: Some(World::Host), ..Request::default() }, &mut |_| {
        true
    })
    .unwrap()
}

#[test]
fn every_load_runs_in_every_mode_and_has_its_rows() {
    let report = run_short(&["rounds=1", "settle_ms=1", "measure_ms=10", "pool_frames=4096"]);
    let figure = |label: &str, metric: &str| {
        let row = report.rows.iter().find(|row| row.label == label && row.metric == metric);
        row.map(|row| row.value)
    };
    let mut kicks = 0.0;
    let streams = [("tcp_stream", "payload"), ("udp_stream", "payload")];
    for (work, rate) in streams.into_iter().chain([("tcp_rr", "round_trips"), ("udp_rr", "round_trips")]) {
        for bytes in ["1B", "4096B"] {
            for flows in [1, 10, 100] {
                for napi in ["off", "timer", "on"] {
                    let label = format!("{work}/{bytes}/flows={flows}/napi={napi}");
                    assert!(figure(&label, rate) > Some(0.0), "{label}");
                    // A device that polls all the time has none.
                    kicks += figure(&label, "kicks").unwrap();
                    for metric in ["cpu", "interrupts", "in_flight", "cleaned_from_receive"] {
                        assert!(figure(&label, metric).is_some(), "{label}: {metric}");
                    }
                }
                let label = format!("{work}/{bytes}/flows={flows}/napi=on");
                assert!(figure(&label, "p99_of_off") > Some(0.0), "{label}");
            }
        }
    }
    assert!(kicks > 0.0);
    let published: Vec<_> = report.rows.iter().filter(|row| row.published.is_some()).collect();
    // Two modes, three numbers of flows: rates of two streams, p50 and p99 of three sorts of round trips.
    assert_eq!(published.len(), 2 * 3 * (2 + 6));
    assert!(
        published.iter().all(|row| row.note.as_ref().is_some_and(|note| note.contains("another set-up")))
    );
    let first = published.first().map(|row| (row.label.as_str(), row.published));
    assert_eq!(first, Some(("tcp_stream/4096B/flows=1/napi=off", Some(28985.0))));
}

#[test]
fn single_load_runs_on_request() {
    for (number, label) in [("13", "tcp_rr/1B/flows=1/"), ("24", "udp_rr/4096B/flows=100/")] {
        let only = format!("only_load={number}");
        let report = run_short(&["rounds=1", "settle_ms=1", "measure_ms=1", &only, "spin=0", "pin=0"]);
        assert!(report.rows.iter().all(|row| row.label.starts_with(label)), "{report:?}");
    }
}
