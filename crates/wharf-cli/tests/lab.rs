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
