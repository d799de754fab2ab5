//! `wharf lab`.

mod common;

use common::wharf;

/// Short enough for a debug build.
const SHORT: [&str; 8] =
    ["lab", "run", "bulk", "--set", "settle_ns=2000000", "--set", "measure_ns=1000000", "--seed=3"];

#[test]
fn experiments_are_listed() {
    let listing = wharf(&["lab", "list", "--json"]).good_json();
    let experiments = listing["experiments"].as_array().unwrap();
    assert!(
        experiments.iter().any(|entry| entry["name"] == "bulk" && entry["what"].is_string()),
        "{listing}"
    );
    assert!(wharf(&["lab", "list"]).stdout.contains("bulk"));
}

#[test]
fn a_run_prints_its_rows_with_their_kind_and_says_the_same_again() {
    let args: Vec<&str> = SHORT.iter().copied().chain(["--json"]).collect();
    let report = wharf(&args).good_json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["experiment", "world", "seed", "parameters", "rows"]);
    assert_eq!(
        (&report["experiment"], &report["world"], &report["seed"]),
        (&"bulk".into(), &"model".into(), &3.into())
    );
    let doorbell = &report["parameters"]["doorbell_ps"];
    assert!(doorbell["kind"] == "fitted" && doorbell["source"].is_string(), "{doorbell}");
    for row in report["rows"].as_array().unwrap() {
        assert!(row["label"].is_string() && row["metric"].is_string() && row["unit"].is_string(), "{row}");
        assert!(
            row["value"].is_number() && (row["published"].is_number() || row["published"].is_null()),
            "{row}"
        );
        assert!(row["kind"] == "fitted" || row["kind"] == "predicted", "{row}");
    }
    assert_eq!(wharf(&args).stdout, wharf(&args).stdout);
}

#[test]
fn the_table_shows_what_was_set_and_the_time_stays_out_of_it() {
    let args: Vec<&str> = SHORT.iter().copied().chain(["--time"]).collect();
    let timed = wharf(&args);
    assert_eq!(timed.code, Some(0));
    assert!(timed.stderr.contains("million per second"), "{timed:?}");
    assert!(timed.stdout.contains("set: measure_ns=1000000, settle_ns=2000000"), "{timed:?}");
    let plain = wharf(&SHORT);
    assert_eq!((plain.stdout, plain.stderr.as_str()), (timed.stdout, ""));
}

/// Both worlds have the same policies; on the host figures are measured, and the pool's ledger was looked at.
#[test]
fn pages_runs_in_both_worlds() {
    let policies = ["allocator", "recycle-head", "recycle-scan", "origin", "halves", "sender-cache"];
    let model: Vec<&str> =
        "lab run pages --set settle_ns=100000 --set measure_ns=100000 --json".split(' ').collect();
    let host: Vec<&str> =
        "lab run pages --world host --threads 2,3 --seconds 0.05 --set rounds=1 --json".split(' ').collect();
    for (args, world, suffixes) in
        [(model, "model", &[""][..]), (host, "host", &["/threads=2", "/threads=3"][..])]
    {
        let report = wharf(&args).good_json();
        assert_eq!((&report["experiment"], &report["world"]), (&"pages".into(), &world.into()));
        let rows = report["rows"].as_array().unwrap();
        for (policy, suffix) in policies.iter().flat_map(|policy| suffixes.iter().map(move |s| (policy, s))) {
            let label = format!("{policy}{suffix}");
            let of = |metric: &str| rows.iter().find(|row| row["label"] == *label && row["metric"] == metric);
            // On the host so short a time may pass without a packet, where others want the processors, too.
            let flows = |row: &serde_json::Value| world == "host" || row["value"].as_f64() > Some(0.0);
            assert!(of("mpps").is_some_and(flows), "{label}");
            for metric in ["allocations", "frees", "spinning", "slow_paths", "locks", "remote_returns"] {
                assert!(of(metric).is_some(), "{label} {metric}");
            }
        }
        assert_eq!(rows.iter().all(|row| row["kind"] == "measured"), world == "host");
    }
    let refused = wharf(&["lab", "run", "pages", "--threads", "2"]);
    assert_eq!(refused.code, Some(2), "threads are for the host: {refused:?}");
}
