//! Same seed and parameters: the same JSON to the byte, in debug and release, on any machine.
//!
//! `UPDATE_GOLDEN=1 cargo test --release -p wharf-lab --test golden` writes the tables anew; look at what changed.

use std::path::Path;
use wharf_lab::experiment::{Parameter, Report, Request, Row, RowKind, run};

#[track_caller]
fn assert_golden(name: &str, report: &Report) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let table = table_of(report);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    let differs = wanted.lines().zip(table.lines()).find(|(wanted, line)| wanted != line);
    assert!(wanted == table, "{name} differs first in {differs:?}");
}

/// A line for each parameter, row and line of a picture, and a hash of all of the report's JSON before them.
fn table_of(report: &Report) -> String {
    let json = serde_json::to_string(report).unwrap();
    let mut lines = vec![format!("{}, world {}, seed {}", report.experiment, report.world, report.seed)];
    lines.push(format!("{} bytes of JSON, {:016x}", json.len(), hash(&json)));
    let parameter = |(key, parameter): (&str, &Parameter)| format!("{key} = {}", parameter.value);
    lines.extend(report.parameters.iter().map(parameter));
    lines.extend(report.rows.iter().map(|row| serde_json::to_string(row).unwrap()));
    for series in &report.series {
        let points = serde_json::to_string(&series.points).unwrap();
        let count = series.points.len();
        lines.push(format!("{}, {}: {count} points, {:016x}", series.chart, series.line, hash(&points)));
    }
    lines.join("\n") + "\n"
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn request(name: &str, set: &[&str], seed: u64) -> Request {
    let set = set.iter().map(ToString::to_string).collect();
    Request { name: name.into(), set, seed, ..Request::default() }
}

fn bulk(set: &[&str], seed: u64) -> Report {
    run(&request("bulk", set, seed), &mut |_| true).unwrap()
}

/// Short enough for a debug build.
const SHORT: [&str; 2] = ["settle_ns=8000000", "measure_ns=4000000"];

#[test]
fn a_short_bulk_is_what_it_was() {
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
fn a_run_that_is_to_end_has_the_rows_so_far() {
    let report = run(&request("bulk", &SHORT, 7), &mut |what| !what.starts_with("udp")).unwrap();
    let whole = bulk(&SHORT, 7);
    assert!(report.interrupted && !whole.interrupted);
    assert_eq!(report.rows, whole.rows[..report.rows.len()]);
    assert_eq!(report.rows.last().unwrap().label, "tcp-1");
}

/// With the parameters as they are in the file: what the lab claims.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn bulk_is_what_it_was_and_near_what_was_published() {
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

/// What a prediction is off by is in its note.
fn assert_residuals_are_said(report: &Report) {
    for row in report.rows.iter().filter(|row| row.published.is_some() && row.kind == RowKind::Predicted) {
        let published = row.published.unwrap();
        if row.metric.ends_with("_by_napi") {
            let off = format!("{:+.1} points", row.value - published);
            assert!(row.note.as_ref().is_some_and(|note| note.contains(&off)), "{off}: {row:?}");
            continue;
        }
        let off = format!("{:+.1} %", (row.value / published - 1.0) * 100.0);
        assert!(row.note.as_ref().is_some_and(|note| note.contains(&off)), "{off}: {row:?}");
    }
}

/// All rows of `pcie`, a shorter time.
#[test]
fn a_short_pcie_is_what_it_was() {
    let set = ["queues=4", "settle_ns=20000", "stack_settle_ns=30000", "measure_ns=20000"];
    assert_golden("pcie-short.txt", &run(&request("pcie", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: before-figures within 10 %, the fitted one within 1, and what is
/// predicted inside the readings, or with the residual in its note.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn pcie_is_what_it_was_and_near_what_was_published() {
    let report = run(&request("pcie", &[], 1), &mut |_| true).unwrap();
    assert_golden("pcie.txt", &report);
    for row in report.rows.iter().filter(|row| row.metric == "mpps") {
        let Some(published) = row.published else { continue };
        let tolerance = if row.kind == RowKind::Fitted { 0.01 } else { 0.1 };
        let near = (row.value - published).abs() <= tolerance * published;
        assert!(near || row.label.contains("mpwqe=on"), "{row:?}");
    }
    assert_residuals_are_said(&report);
    for row in report.rows.iter().filter(|row| row.metric == "busier_way") {
        assert!((1.0..=100.0).contains(&row.value), "{row:?}");
    }
}

/// All rows of `pages` in the model, a shorter time on a smaller machine.
#[test]
fn a_short_pages_is_what_it_was() {
    let set = ["cpus=8", "channels=2", "streams=24", "settle_ns=1000000", "measure_ns=500000"];
    assert_golden("pages-short.txt", &run(&request("pages", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: what the lab claims of the allocator's lock and of what is without it.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn pages_is_what_it_was_and_near_what_was_published() {
    let report = run(&request("pages", &[], 1), &mut |_| true).unwrap();
    assert_golden("pages.txt", &report);
    assert_residuals_are_said(&report);
    let value = |label: &str, metric: &str| {
        report.rows.iter().find(|row| row.label == label && row.metric == metric).unwrap()
    };
    let [spinning, in_poll] = ["spinning", "spinning_in_poll"].map(|metric| value("allocator", metric));
    assert!(spinning.kind == RowKind::Fitted && (spinning.value - 55.0).abs() < 0.2, "{spinning:?}");
    assert!(in_poll.kind == RowKind::Predicted && (in_poll.value - 77.0).abs() < 7.7, "{in_poll:?}");
    assert!(value("origin", "mpps_of_allocator").value >= 1.3 && value("origin", "spinning").value < 1.0);
}

/// A row says with which switches it was run, and how many senders there were.
#[test]
fn labels_say_what_was_run() {
    let set = ["queues=2", "settle_ns=3000", "stack_settle_ns=3000", "measure_ns=5000"];
    let report = run(&request("pcie", &set, 3), &mut |_| true).unwrap();
    for row in report.rows {
        let received = !row.label.starts_with("socket-1/");
        assert_eq!(row.label.contains("/rx_cqe_compress=o"), received, "{row:?}");
        assert_eq!(row.kind, RowKind::Predicted, "with parameters set, nothing is fitted");
    }
    let report = bulk(&[SHORT[0], SHORT[1], "cpus=2", "streams=3"], 7);
    assert!(report.rows.iter().all(|row| row.kind == RowKind::Predicted));
    let senders = |row: &Row| row.label.split('/').next().map(str::to_string);
    let mut found: Vec<_> = report.rows.iter().filter_map(senders).collect();
    found.dedup();
    assert_eq!(found, ["trafgen-2", "tcp-1", "udp-3", "tcp-3"]);
}

/// Each parameter of `pcie` at both ends of what is allowed: every run drains, and breaks no rule.
#[test]
fn no_setting_within_bounds_breaks_a_rule_of_the_nics() {
    let base = ["queues=2", "settle_ns=3000", "stack_settle_ns=3000", "measure_ns=5000"];
    let run = |set: &[&str]| run(&request("pcie", set, 3), &mut |_| true);
    for (key, parameter) in run(&base).unwrap().parameters.iter() {
        if key.ends_with("settle_ns") || key == "measure_ns" || key == "queues" {
            continue;
        }
        for value in parameter.allowed.ends() {
            let changed = format!("{key}={value}");
            let set = with(&base, key, &changed);
            assert!(run(&set).is_ok(), "{key}={value}: {:?}", run(&set).err());
        }
    }
}

/// All rows of `fairness`, a short time.
#[test]
fn a_short_fairness_is_what_it_was() {
    let set = ["settle_ns=300000", "measure_ns=1000000"];
    assert_golden("fairness-short.txt", &run(&request("fairness", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: packets per second of 2011 within 20 %, the fitted ones within 1; and what
/// lanes promise by default.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn fairness_is_near_what_was_published_and_lanes_share_the_work() {
    let report = run(&request("fairness", &[], 1), &mut |_| true).unwrap();
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
fn what_a_packet_costs_is_the_best_fit() {
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

/// `base` with `changed` in place of what it sets `key` to.
fn with<'a>(base: &[&'a str], key: &str, changed: &'a str) -> Vec<&'a str> {
    let others = base.iter().filter(|set| set.split_once('=').is_none_or(|(other, _)| other != key));
    others.copied().chain([changed]).collect()
}

/// All rows of `hol`, a short time.
#[test]
fn a_short_hol_is_what_it_was() {
    let set = ["runs=2", "10g_settle_ns=20000000", "10g_measure_ns=20000000", "interval_ns=10000000"];
    let set: Vec<&str> =
        set.into_iter().chain(["100m_settle_ns=100000000", "100m_measure_ns=100000000"]).collect();
    assert_golden("hol-short.txt", &run(&request("hol", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: the fitted delay within 1 %, the predicted ones within 15 %, requeues of
/// cut super-packets within a factor of 3, and the spread on 10 Gbit/s smaller with bulks. What is not reproduced is said.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn hol_is_what_it_was_and_near_what_was_published() {
    let report = run(&request("hol", &[], 1), &mut |_| true).unwrap();
    assert_golden("hol.txt", &report);
    assert_residuals_are_said(&report);
    for row in &report.rows {
        let Some(published) = row.published else { continue };
        let tolerance = match (row.metric, row.kind) {
            (_, RowKind::Fitted) => 0.01,
            ("delay_least" | "delay_most" | "delay_mean", _) => 0.15,
            ("requeues", _) if row.label.contains("gso") => 2.0,
            _ => continue,
        };
        assert!((row.value - published).abs() <= tolerance * published, "{row:?}");
    }
    let spread = |label: &str| {
        report.rows.iter().find(|row| row.label == label && row.metric == "delay_spread").unwrap()
    };
    assert!(spread("10g/gso/bulk=on").value < 0.8 * spread("10g/gso/bulk=off").value);
}

/// All rows of `bql`, short phases.
#[test]
fn a_short_bql_is_what_it_was() {
    let set = ["phase_ns=20000000", "hold_ns=5000000", "probe_every_ns=500000"];
    assert_golden("bql-short.txt", &run(&request("bql", &set, 7), &mut |_| true).unwrap());
}

/// The limit follows the wire both ways and keeps it busy; without it a priority packet waits for the ring.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn bql_is_what_it_was_and_keeps_delays_short() {
    let report = run(&request("bql", &[], 1), &mut |_| true).unwrap();
    assert_golden("bql.txt", &report);
    let value = |label: &str, metric: &str| {
        report.rows.iter().find(|row| row.label == label && row.metric == metric).unwrap().value
    };
    for phase in ["1:10gbit", "2:1gbit", "3:100mbit", "4:1gbit", "5:10gbit"] {
        let [on, off] = ["on", "off"].map(|limit| format!("bql={limit}/{phase}"));
        assert!(value(&on, "wire_used") > 99.9, "{phase}");
        assert!(value(&on, "delay_p50") * 5.0 < value(&off, "delay_p50"), "{phase}");
    }
    let limit = |phase: &str| value(&format!("bql=on/{phase}"), "limit_at_end");
    assert!(limit("3:100mbit") < limit("2:1gbit") && limit("2:1gbit") < limit("1:10gbit"));
    assert!((limit("5:10gbit") / limit("1:10gbit") - 1.0).abs() < 0.1);
}

/// Each parameter of `hol` and `bql` at both ends of what is allowed: all that enters leaves.
#[test]
fn no_setting_within_bounds_breaks_a_rule_of_the_stack() {
    let hol = [
        "runs=1",
        "10g_settle_ns=2000000",
        "10g_measure_ns=4000000",
        "100m_settle_ns=2000000",
        "100m_measure_ns=4000000",
    ];
    let bql = ["phase_ns=2000000"];
    for (name, base) in [("hol", &hol[..]), ("bql", &bql[..])] {
        let run = |set: &[&str]| run(&request(name, set, 3), &mut |_| true);
        for (key, parameter) in run(base).unwrap().parameters.iter() {
            if ["settle_ns", "measure_ns", "phase_ns"].iter().any(|end| key.ends_with(end)) || key == "runs" {
                continue;
            }
            for value in parameter.allowed.ends() {
                let changed = format!("{key}={value}");
                let set = with(base, key, &changed);
                assert!(run(&set).is_ok(), "{name} {key}={value}: {:?}", run(&set).err());
            }
        }
    }
}

/// The same for `batching` and `tx-napi`: a failing driver, rings of a few frames, a step that takes a millisecond.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn no_setting_within_bounds_breaks_a_rule_of_one_queue_or_of_a_guest() {
    let base = ["runs=1", "settle_ns=100000", "measure_ns=1000000"];
    for name in ["batching", "tx-napi"] {
        let run = |set: &[&str]| run(&request(name, set, 3), &mut |_| true);
        for (key, parameter) in run(&base).unwrap().parameters.iter() {
            if base.iter().any(|set| set.starts_with(key)) {
                continue;
            }
            for value in parameter.allowed.ends() {
                let changed = format!("{key}={value}");
                let set = with(&base, key, &changed);
                assert!(run(&set).is_ok(), "{name} {key}={value}: {:?}", run(&set).err());
            }
        }
    }
}

/// Each parameter of `bulk` at both ends of what is allowed: every run drains, breaks no rule, and no processor works for
/// longer than there was time; or what cannot go together is said.
#[test]
fn no_setting_within_bounds_breaks_a_rule_of_the_kernel() {
    let base = ["settle_ns=1000000", "measure_ns=1000000", "cpus=2", "streams=3"];
    let run = |set: &[&str]| run(&request("bulk", set, 3), &mut |_| true);
    for (key, parameter) in run(&base).unwrap().parameters.iter() {
        if key == "settle_ns" || key == "measure_ns" {
            continue;
        }
        for value in parameter.allowed.ends() {
            let changed = format!("{key}={value}");
            let set = with(&base, key, &changed);
            let report = match run(&set) {
                Err(error) if key == "qdisc_packets" => {
                    let wanted = "qdisc_packets of \"1\" cannot be: want a whole number from 2 to 100000";
                    assert!(error.is_usage() && error.to_string() == wanted, "{error}");
                    continue;
                }
                report => report.unwrap_or_else(|error| panic!("{key}={value}: {error}")),
            };
            for row in report.rows.iter().filter(|row| row.unit.starts_with("percent")) {
                assert!(row.value <= 100.0001, "{key}={value}: {row:?}");
            }
        }
    }
}

/// What sessions of compressed completions are assumed to be decides what is predicted: rows show how much.
#[test]
fn what_an_assumption_decides_is_shown() {
    let set =
        ["queues=2", "settle_ns=3000", "stack_settle_ns=3000", "measure_ns=5000", "session_long_ns=8000"];
    let report = run(&request("pcie", &set, 3), &mut |_| true).unwrap();
    for work in ["xdp_drop/rx_cqe_compress=on", "xdp_tx/rx_cqe_compress=on,xdp_tx_mpwqe=on,inline=auto"] {
        for session_ns in [1000, 8000] {
            let label = format!("{work}/session_ns={session_ns}");
            let row = report.rows.iter().find(|row| row.label == label).unwrap_or_else(|| panic!("{label}"));
            assert!(row.note.as_ref().is_some_and(|note| note.contains("assumed")), "{row:?}");
        }
    }
}

/// All rows of `tx-napi`, a short time.
#[test]
fn a_short_tx_napi_is_what_it_was() {
    let set = ["runs=1", "settle_ns=2000000", "measure_ns=4000000"];
    assert_golden("tx-napi-short.txt", &run(&request("tx-napi", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: the figures of `upstream` that all were fitted to are near, and differences of
/// more than 5 % have the published sign in four of five.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn tx_napi_is_what_it_was_and_has_the_signs_that_were_published() {
    let report = run(&request("tx-napi", &[], 1), &mut |_| true).unwrap();
    assert_golden("tx-napi.txt", &report);
    assert_residuals_are_said(&report);
    let signs = report.rows.iter().find(|row| row.metric == "signs_as_published").unwrap();
    assert!(signs.value >= 80.0, "{signs:?}");
    let off = |row: &&Row| (row.value / row.published.unwrap()).ln().abs();
    let fitted: Vec<f64> =
        report.rows.iter().filter(|row| row.kind == RowKind::Fitted).map(|row| off(&row)).collect();
    let mean = fitted.iter().sum::<f64>() / fitted.len() as f64;
    assert!(fitted.len() == 42 && mean < 0.12, "{} figures, off by {mean}", fitted.len());
}

/// All rows of `batching`, a short time.
#[test]
fn a_short_batching_is_what_it_was() {
    let set = ["runs=1", "settle_ns=300000", "measure_ns=1000000"];
    assert_golden("batching-short.txt", &run(&request("batching", &set, 7), &mut |_| true).unwrap());
}

/// With the parameters as they are in the file: what one process gains at most is fitted, more of them gain less, and what is not
/// reproduced is said.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn batching_is_what_it_was_and_near_what_was_published_for_few_processes() {
    let report = run(&request("batching", &[], 1), &mut |_| true).unwrap();
    assert_golden("batching.txt", &report);
    let value = |label: &str, metric: &str| {
        report.rows.iter().find(|row| row.label == label && row.metric == metric).unwrap()
    };
    let most = |processes: u32| {
        value(&format!("ipoib/tcp+tcp-nodelay/processes={processes}"), "bandwidth_by_batching_most")
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
