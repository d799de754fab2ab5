//! `bulk`, and the kernel's path under it.

use super::{
    Report, Row, RowKind, assert_golden, assert_residuals_are_said, at_both_ends, request, run, whole,
};

fn bulk(set: &[&str], seed: u64) -> Report {
    whole("bulk", set, seed)
}

/// Short enough for a debug build.
const SHORT: [&str; 2] = ["settle_ns=8000000", "measure_ns=4000000"];

#[test]
fn short_bulk_equals_golden() {
    assert_golden("bulk-short.txt", &bulk(&SHORT, 7));
}

#[test]
fn a_parameter_changes_the_result_and_is_shown() {
    let report = bulk(&[SHORT[0], SHORT[1], "doorbell_ps=200000"], 7);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (&json["parameters"]["doorbell_ps"]["value"], &json["world"]),
        (&200_000.into(), &"model".into())
    );
    assert_eq!(json["parameters"]["doorbell_ps"]["kind"], "set");
    let off = report.rows.iter().find(|row| row.label == "trafgen-12/bulk=off").unwrap();
    assert!((4.5..=5.01).contains(&off.value), "5 million doorbells per second: {off:?}");
}

#[test]
fn interrupted_run_has_the_rows_so_far() {
    let report = run(&request("bulk", &SHORT, 7), &mut |what| !what.starts_with("udp")).unwrap();
    let all = bulk(&SHORT, 7);
    assert!(report.interrupted && !all.interrupted);
    assert_eq!(report.rows, all.rows[..report.rows.len()]);
    assert_eq!(report.rows.last().unwrap().label, "tcp-1");
}

/// With the parameters of the file: the lab's claims.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn bulk_equals_golden_and_is_near_the_published() {
    let report = bulk(&[], 1);
    assert_golden("bulk.txt", &report);
    for row in &report.rows {
        let Some(published) = row.published else { continue };
        let (tolerance, why) = match row.kind {
            RowKind::Fitted => (0.01, "fitted"),
            _ => (0.5, "within a factor of two"),
        };
        assert!((row.value - published).abs() <= tolerance * published, "{why}: {row:?}");
    }
    assert_residuals_are_said(&report);
}

/// A row names the number of senders; with parameters set, nothing is fitted.
#[test]
fn labels_name_the_number_of_senders() {
    let report = bulk(&[SHORT[0], SHORT[1], "cpus=2", "streams=3"], 7);
    assert!(report.rows.iter().all(|row| row.kind == RowKind::Predicted));
    let senders = |row: &Row| row.label.split('/').next().map(str::to_string);
    let mut found: Vec<_> = report.rows.iter().filter_map(senders).collect();
    found.dedup();
    assert_eq!(found, ["trafgen-2", "tcp-1", "udp-3", "tcp-3"]);
}

/// Each parameter of `bulk` at both ends of its range: every run drains and breaks no rule, and no processor
/// works longer than the time that passed; or an error names the conflict.
#[test]
fn extreme_settings_break_no_rule_of_linux_qdisc() {
    let base = ["settle_ns=1000000", "measure_ns=1000000", "cpus=2", "streams=3"];
    at_both_ends("bulk", &base, &["settle_ns", "measure_ns"], |key, value, report| {
        let report = match report {
            Err(error) if key == "qdisc_packets" => {
                let wanted = "qdisc_packets of \"1\" cannot be: want a whole number from 2 to 100000";
                assert!(error.is_usage() && error.to_string() == wanted, "{error}");
                return;
            }
            report => report.unwrap_or_else(|error| panic!("{key}={value}: {error}")),
        };
        for row in report.rows.iter().filter(|row| row.unit.starts_with("percent")) {
            assert!(row.value <= 100.0001, "{key}={value}: {row:?}");
        }
    });
}
