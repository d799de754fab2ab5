//! `batching`: one queue for all.

use super::{RowKind, assert_golden, at_both_ends, row, whole};

/// All rows of `batching`, a short time.
#[test]
fn short_batching_equals_golden() {
    let set = ["runs=1", "settle_ns=300000", "measure_ns=1000000"];
    assert_golden("batching-short.txt", &whole("batching", &set, 7));
}

/// With the parameters of the file: the greatest gain of one process is fitted, more processes gain less, and
/// figures not reproduced have a note.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn batching_equals_golden_and_is_near_the_published_for_few_processes() {
    let report = whole("batching", &[], 1);
    assert_golden("batching.txt", &report);
    let most = |processes: u32| {
        let label = format!("ipoib/tcp+tcp-nodelay/processes={processes}");
        row(&report, &label, "bandwidth_by_batching_most")
    };
    assert!(most(1).kind == RowKind::Fitted && (most(1).value - 49.5).abs() < 1.0, "{:?}", most(1));
    assert!(most(64).value < most(16).value, "many processes gain less: {:?}", most(64));
    for processes in [4, 16, 64] {
        let row = most(processes);
        let published = row.published.unwrap();
        let far = !(published / 2.0..=2.0 * published).contains(&row.value);
        assert_eq!(far, row.note.as_ref().unwrap().contains("not reproduced"), "{row:?}");
    }
}

/// Each parameter of `batching` at both ends of its range: a failing driver, rings of a few frames; all that
/// enters leaves.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn extreme_settings_break_no_rule_of_one_queue() {
    let base = ["runs=1", "settle_ns=100000", "measure_ns=1000000"];
    at_both_ends("batching", &base, &["runs", "settle_ns", "measure_ns"], |key, value, report| {
        assert!(report.is_ok(), "{key}={value}: {:?}", report.err());
    });
}

/// Steps so slow that nothing leaves in the measured time: no change is reported, and a note says so.
#[test]
fn nothing_sent_then_no_change_is_reported() {
    let set = ["runs=1", "settle_ns=0", "measure_ns=1000000", "tcp_send_ns=1000000", "message_ns=1000000"];
    let report = whole("batching", &set, 3);
    let said = |row: &&super::Row| row.note.as_ref().is_some_and(|note| note.contains("nothing was sent"));
    let silent: Vec<&super::Row> = report.rows.iter().filter(said).collect();
    assert!(!silent.is_empty(), "the setting is one that nothing is sent with");
    for row in silent {
        let changes = report.rows.iter().filter(|other| other.label == row.label && other.unit == "percent");
        assert_eq!((row.value, changes.count()), (0.0, 0), "{row:?}");
    }
}
