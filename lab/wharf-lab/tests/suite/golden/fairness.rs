//! `fairness` in the model.

use super::{RowKind, assert_golden, request, run, whole};

/// All rows of `fairness`, a short time.
#[test]
fn short_fairness_equals_golden() {
    let set = ["settle_ns=300000", "measure_ns=1000000"];
    assert_golden("fairness-short.txt", &whole("fairness", &set, 7));
}

/// With the parameters of the file: packets per second of 2011 within 20 %, the fitted ones within 1; and the
/// promises of lanes by default.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn fairness_is_near_the_published_and_lanes_share_the_work() {
    let report = whole("fairness", &[], 1);
    let mut published = 0;
    for row in report.rows.iter().filter(|row| row.metric == "mpps") {
        let Some(figure) = row.published else { continue };
        let tolerance = if row.kind == RowKind::Fitted { 0.01 } else { 0.2 };
        assert!((row.value - figure).abs() <= tolerance * figure, "{row:?}");
        published += 1;
    }
    assert_eq!(published, 4);
    let default = report.rows.iter().filter(|row| row.label.starts_with("lanes/quota+time/"));
    for row in default {
        let least = match row.metric {
            // Two of three senders share a core, and make their packets more slowly. An owner stays while others announce some.
            "jain_senders" if row.label.ends_with("threads=3") => 0.96,
            "jain_drained" if row.label.ends_with("threads=3") => 0.88,
            "jain_senders" => 0.99,
            "jain_drained" => 0.9,
            _ => continue,
        };
        assert!(row.value >= least, "{row:?}");
    }
}

/// The two parameters that decide `fairness` are fitted to a figure each: a step more or less fits it worse.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn packet_costs_are_the_best_fit() {
    let error = |at: usize, wanted: f64, set: &str| {
        let mut rows = Vec::new();
        let report = run(&request("fairness", &[set], 1), &mut |what| what != "root-lock/jiffy/threads=3");
        rows.extend(
            report.unwrap().rows.into_iter().filter(|row| row.published.is_some() && row.metric == "mpps"),
        );
        (rows[at].value - wanted).abs()
    };
    let [less, fitted, more] = ["make_ns=634", "make_ns=640", "make_ns=648"].map(|set| error(0, 1.24, set));
    assert!(fitted < less && fitted < more, "{less} {fitted} {more}");
    let [less, fitted, more] =
        ["remote_ns=460", "remote_ns=470", "remote_ns=480"].map(|set| error(1, 2.03, set));
    assert!(fitted < less && fitted < more, "{less} {fitted} {more}");
}
