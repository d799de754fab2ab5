//! `pcie`: NICs on the bus.

use super::{RowKind, assert_golden, assert_residuals_are_said, at_both_ends, whole};

/// Short enough for many runs.
const TINY: [&str; 4] = ["queues=2", "settle_ns=3000", "stack_settle_ns=3000", "measure_ns=5000"];

/// All rows of `pcie`, a shorter time.
#[test]
fn short_pcie_equals_golden() {
    let set = ["queues=4", "settle_ns=20000", "stack_settle_ns=30000", "measure_ns=20000"];
    assert_golden("pcie-short.txt", &whole("pcie", &set, 7));
}

/// With the parameters of the file: before-figures within 10 %, the fitted one within 1, and predictions
/// inside the readings, or with the residual in their notes.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn pcie_equals_golden_and_is_near_the_published() {
    let report = whole("pcie", &[], 1);
    assert_golden("pcie.txt", &report);
    for row in report.rows.iter().filter(|row| row.metric == "mpps") {
        let Some(published) = row.published else { continue };
        let tolerance = if row.kind == RowKind::Fitted { 0.01 } else { 0.1 };
        let near = (row.value - published).abs() <= tolerance * published;
        // Sockets at full rate are held by something that is not the bus.
        assert!(near || row.label.contains("mpwqe=on") || row.label.starts_with("sockets/"), "{row:?}");
    }
    assert_residuals_are_said(&report);
    for row in report.rows.iter().filter(|row| row.metric == "busier_way") {
        assert!((1.0..=100.0).contains(&row.value), "{row:?}");
    }
}

/// A row names its switches; with parameters set, nothing is fitted.
#[test]
fn labels_name_the_switches() {
    for row in whole("pcie", &TINY, 3).rows {
        let received = !row.label.starts_with("socket");
        assert_eq!(row.label.contains("/rx_cqe_compress=o"), received, "{row:?}");
        assert_eq!(row.kind, RowKind::Predicted, "{row:?}");
    }
}

/// Each parameter of `pcie` at both ends of its range: every run drains, and breaks no rule.
#[test]
fn extreme_settings_break_no_rule_of_the_nics() {
    at_both_ends("pcie", &TINY, &["settle_ns", "measure_ns", "queues"], |key, value, report| {
        assert!(report.is_ok(), "{key}={value}: {:?}", report.err());
    });
}

/// The end of sessions of compressed completions decides predictions: rows show its weight.
#[test]
fn rows_show_the_weight_of_the_end_of_sessions() {
    let set = [&TINY[..], &["session_long_ns=8000"]].concat();
    let report = whole("pcie", &set, 3);
    for work in ["xdp_drop/rx_cqe_compress=on", "xdp_tx/rx_cqe_compress=on,xdp_tx_mpwqe=on,inline=auto"] {
        for session_ns in [1000, 8000] {
            let label = format!("{work}/session_ns={session_ns}");
            let row = report.rows.iter().find(|row| row.label == label).unwrap_or_else(|| panic!("{label}"));
            assert!(row.note.as_ref().is_some_and(|note| note.contains("which is fitted")), "{row:?}");
        }
    }
}
