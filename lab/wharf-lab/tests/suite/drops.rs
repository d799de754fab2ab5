//! `drops` on this machine, for a few milliseconds a run: every policy runs, keeps conservation and ledger
//! (or the run fails), and has its rows. No figure of time is checked.

use wharf_lab::experiment::{Request, World, run};

fn request(set: &[&str]) -> Request {
    let set = set.iter().map(ToString::to_string).collect();
    Request { name: "drops".into(), set, world: Some(World::Host), threads: vec![1, 3], ..Request::default() }
}

#[test]
fn waiting_drops_nothing_and_dropping_waits_for_nothing() {
    let request = request(&["rounds=2", "settle_ms=1", "measure_ms=20", "wire_mbit=10"]);
    let report = run(&request, &mut |_| true).unwrap();
    let figure = |label: &str, metric: &str| {
        let row = report.rows.iter().find(|row| row.label == label && row.metric == metric);
        row.map(|row| row.value)
    };
    for threads in [1, 3] {
        for device in ["wire", "null", "as-2011"] {
            for policy in ["wait", "wait+small-queues"] {
                let label = format!("{device}/{policy}/threads={threads}");
                assert_eq!(figure(&label, "dropped"), Some(0.0), "{label}");
                assert_eq!(figure(&label, "drop_share"), Some(0.0), "{label}");
                for metric in
                    ["delivered", "delivered_to_dropping", "waits", "wait_p50", "wait_p99", "wait_p999"]
                {
                    assert!(figure(&label, metric).is_some(), "{label}: {metric}");
                }
            }
            let label = format!("{device}/drop-tail/threads={threads}");
            assert!(figure(&label, "wait_p50").is_none(), "{label}");
            assert!(figure(&label, "drop_share").is_some(), "{label}");
        }
        // 15 kpps: any machine offers more than that.
        let share = figure(&format!("wire/drop-tail/threads={threads}"), "drop_share");
        assert!(share > Some(0.0), "{share:?}");
    }
    let beside: Vec<_> =
        report.rows.iter().filter_map(|row| Some((row.label.as_str(), row.metric, row.published?))).collect();
    let wanted = [
        ("null/drop-tail/threads=1", "drop_share", 0.0),
        ("null/drop-tail/threads=3", "drop_share", 15.0),
        ("as-2011/drop-tail/threads=1", "drop_share", 0.0),
        ("as-2011/drop-tail/threads=3", "drop_share", 15.0),
    ];
    assert_eq!(beside, wanted, "by threads, for what was a dummy device");
    for row in report.rows.iter().filter(|row| row.metric == "drop_share" && row.published.is_some()) {
        let off = format!("{:+.1} percentage points", row.value - row.published.unwrap());
        assert!(row.note.as_ref().is_some_and(|note| note.contains(&off)), "{off}: {row:?}");
    }
}

#[test]
fn interrupted_run_ends_at_once() {
    let request = Request { duration_ns: Some(3_600_000_000_000), ..request(&[]) };
    let mut asked = 0;
    let report = run(&request, &mut |_| {
        asked += 1;
        asked < 3
    });
    let report = report.unwrap();
    assert!(report.interrupted && report.rows.is_empty());
}
