//! `tx-napi` in the model.

use super::{Row, RowKind, assert_golden, assert_residuals_are_said, at_both_ends, whole};

/// All rows of `tx-napi`, a short time.
#[test]
fn short_tx_napi_equals_golden() {
    let set = ["runs=1", "settle_ns=2000000", "measure_ns=4000000"];
    assert_golden("tx-napi-short.txt", &whole("tx-napi", &set, 7));
}

/// With the parameters of the file: the figures of `upstream` are near the published ones that they were
/// fitted to, and the head of the table says what the predicted effects are worth.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn tx_napi_equals_golden_and_says_its_skill() {
    let report = whole("tx-napi", &[], 1);
    assert_golden("tx-napi.txt", &report);
    assert_residuals_are_said(&report);
    let judgement = report.judgement;
    assert_eq!(
        (judgement.effects, judgement.fitted_effects),
        (39, 0),
        "bytes per packet are of another column"
    );
    assert_eq!(judgement.skill.unwrap() > 0.0, !judgement.words().starts_with("NO BETTER"), "{judgement:?}");
    let off = |row: &&Row| (row.value / row.published.unwrap()).ln().abs();
    let fitted: Vec<f64> =
        report.rows.iter().filter(|row| row.kind == RowKind::Fitted).map(|row| off(&row)).collect();
    let mean = fitted.iter().sum::<f64>() / fitted.len() as f64;
    assert!(fitted.len() == 42 && mean < 0.12, "{} figures, off by {mean}", fitted.len());
}

/// Each parameter of `tx-napi` at both ends of its range: rings of a few frames, a step of a millisecond; all
/// that enters leaves.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn extreme_settings_break_no_rule_of_virtio_guest() {
    let base = ["runs=1", "settle_ns=100000", "measure_ns=1000000"];
    at_both_ends("tx-napi", &base, &["runs", "settle_ns", "measure_ns"], |key, value, report| {
        assert!(report.is_ok(), "{key}={value}: {:?}", report.err());
    });
}
