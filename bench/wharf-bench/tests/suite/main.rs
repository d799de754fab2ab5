//! `wharf bench`.

#[path = "../../../../crates/wharf-cli/tests/common/programs/mod.rs"]
mod common;

use common::manners::{
    assert_documented, assert_examples_fit, assert_names_itself, assert_pages, assert_short_help, words,
};
use common::threads::assert_few_threads_will_do;
use common::{SAMPLE, assert_wrong, command, finish, signal, started, wharf};
use serde_json::Value;

/// Every command, as words behind `wharf`.
const COMMANDS: [&str; 2] = ["bench path", "bench device"];

#[test]
fn the_bench_has_a_row_for_each_case() {
    let args =
        ["bench", "path", "--cores", "1", "--bursts", "1,32", "--direct", "--seconds", "0.3", "--json"];
    let run = wharf(&args).good_json();
    let rows = run["rows"].as_array().unwrap();
    let kinds: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["kind"].as_str().unwrap(), row["burst"].as_u64().unwrap())).collect();
    assert_eq!(kinds, [("lane", 1), ("lane", 32), ("direct", 1), ("direct", 32)]);
    for row in rows {
        assert_eq!((&row["cores"], &row["senders"]), (&Value::from(1), &Value::from(1)), "{row}");
        assert!(
            row["mpps"].as_f64() > Some(0.0) && row["packets_per_doorbell"].as_f64() > Some(0.0),
            "{row}"
        );
        for stage in ["alloc", "fill", "send", "complete"] {
            assert!(row["cycles"][stage].as_f64() >= Some(0.0), "{stage}: {row}");
        }
    }
}

#[test]
fn the_bench_shares_the_path_among_senders() {
    let run = wharf(&[
        "bench",
        "path",
        "--cores",
        "1",
        "--senders",
        "4",
        "--bursts",
        "8",
        "--seconds",
        "0.05",
        "--json",
    ]);
    let row = run.good_json()["rows"][0].clone();
    assert_eq!((&row["senders"], &row["cycles"]), (&Value::from(4), &Value::Null), "{row}");
    let table = wharf(&["bench", "path", "--cores", "1", "--bursts", "8", "--seconds", "0.05"]);
    assert!(table.stdout.contains("Mpps") && table.stdout.contains("complete"), "{}", table.stdout);
}

#[test]
fn a_device_is_named_by_its_position_or_by_an_option() {
    for device in [&["null"][..], &["--to", "null"]] {
        let run = wharf(&[&["bench", "device", "--seconds", "0.2", "--json"], device].concat());
        assert_eq!(run.good_json()["device"], "null", "{device:?}");
    }
}

#[test]
fn each_wrong_use_gets_an_error_with_the_allowed_values() {
    for (args, what) in [
        ("bench device", "DEVICE"),
        ("bench device null --to null", "cannot be used with"),
        ("bench device --to null --cpu 99999", "may not use it"),
        ("bench path --cores 0", "want numbers of cores"),
        ("bench path --cores 100000", "this process may use 1 to"),
        ("bench path --bursts 1,0", "want a number from 1 to 256"),
    ] {
        assert_wrong(args, what);
    }
    let done = wharf(&["bench"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("Usage: wharf bench"), "{done:?}");
}

#[test]
fn each_option_of_help_is_in_the_manual_and_completes() {
    assert_documented(&COMMANDS, "wharf-bench", |of| words(of)[1..].to_vec());
}

#[test]
fn pages_are_written_and_groff_takes_them_without_a_warning() {
    assert_pages(&COMMANDS);
}

#[test]
fn help_fits_and_has_examples() {
    assert_short_help(&COMMANDS);
    assert_examples_fit(&COMMANDS);
    assert_names_itself("wharf-bench", "bench");
    assert_eq!(wharf(&["path", "--help"]).stdout, wharf(&["bench", "path", "--help"]).stdout);
    assert!(wharf(&["path", "--help"]).stdout.contains("Examples:"));
}

#[test]
fn a_signal_ends_a_benchmark_with_the_rows_so_far() {
    let child = command(&["bench", "path", "--cores", "1", "--seconds", "0.1", "--json"]).spawn().unwrap();
    started(&child);
    signal(&child, "TERM");
    let run = finish(child).good_json();
    assert!(run["rows"].as_array().unwrap().len() < 4, "{run}");
}

#[test]
fn a_source_that_has_ended_cannot_be_measured() {
    let capture = format!("pcap:{SAMPLE}");
    for (from, code, says) in
        [("null", 2, "null: it only sends"), (&capture, 1, "nothing comes from it any more")]
    {
        let done = wharf(&["bench", "device", "--from", from, "--seconds", "1h"]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(code), ""), "{done:?}");
        assert!(done.line().contains(says), "{done:?}");
    }
}

#[test]
fn a_request_for_counters_ends_no_run() {
    let child = command(&["bench", "path", "--seconds", "0.2"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(150));
    signal(&child, "USR1");
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn too_few_threads_are_no_panic_and_no_hang() {
    assert_few_threads_will_do(&[(&["bench", "path", "--seconds", "0.02", "--cores", "1,2"], 4)]);
}
