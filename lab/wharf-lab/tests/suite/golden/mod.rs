//! Golden tables: the same seed and parameters give the same JSON to the byte, in debug and release, on any
//! machine. A file of tests for each subject.
//!
//! `UPDATE_GOLDEN=1 cargo test --profile tested -p wharf-lab --test suite golden -- --include-ignored` writes the
//! tables anew; check the differences.

mod batching;
mod bulk;
mod fairness;
mod pages;
mod pcie;
mod stack;
mod tx_napi;

use std::path::Path;
use wharf_lab::experiment::{LabError, Report, Request, Row, RowKind, run};

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

/// Returns a hash of the report's JSON, then the rows that stand beside a published figure.
fn table_of(report: &Report) -> String {
    let json = serde_json::to_string(report).unwrap();
    let mut lines = vec![format!("{}, world {}, seed {}", report.experiment, report.world, report.seed)];
    lines.push(format!("{} bytes of JSON, {:016x}", json.len(), hash(&json)));
    let beside = report.rows.iter().filter(|row| row.published.is_some());
    lines.extend(beside.map(|row| serde_json::to_string(row).unwrap()));
    lines.join("\n") + "\n"
}

/// Returns FNV-1a of `text`.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn request(name: &str, set: &[&str], seed: u64) -> Request {
    let set = set.iter().map(ToString::to_string).collect();
    Request { name: name.into(), set, seed, ..Request::default() }
}

/// Runs an experiment from beginning to end.
fn whole(name: &str, set: &[&str], seed: u64) -> Report {
    run(&request(name, set, seed), &mut |_| true).unwrap()
}

/// Returns the row of that label and metric.
#[track_caller]
fn row<'a>(report: &'a Report, label: &str, metric: &str) -> &'a Row {
    let found = report.rows.iter().find(|row| row.label == label && row.metric == metric);
    found.unwrap_or_else(|| panic!("no {metric} of {label}"))
}

/// Checks that the residual of each prediction is in its note.
fn assert_residuals_are_said(report: &Report) {
    for row in report.rows.iter().filter(|row| row.published.is_some() && row.kind == RowKind::Predicted) {
        let published = row.published.unwrap();
        let off = match row.in_points {
            true => format!("{:+.1} points", row.value - published),
            false => format!("{:+.1} %", (row.value / published - 1.0) * 100.0),
        };
        assert!(row.note.as_ref().is_some_and(|note| note.contains(&off)), "{off}: {row:?}");
    }
}

/// Runs `name` with each parameter at both ends of its range, one at a time, except those whose names end in
/// one of `but`; `holds` checks the result.
fn at_both_ends(
    name: &str, base: &[&str], but: &[&str], holds: impl Fn(&str, u64, Result<Report, LabError>),
) {
    for (key, parameter) in whole(name, base, 3).parameters.iter() {
        if but.iter().any(|end| key.ends_with(end)) {
            continue;
        }
        for value in parameter.allowed.ends() {
            let changed = format!("{key}={value}");
            let others = base.iter().filter(|set| set.split_once('=').is_none_or(|(other, _)| other != key));
            let set: Vec<&str> = others.copied().chain([changed.as_str()]).collect();
            let ran = run(&request(name, &set, 3), &mut |_| true);
            // If nothing came through, no change in percent is made up.
            for row in
                ran.iter().flat_map(|report| &report.rows).filter(|row| row.unit.starts_with("percent"))
            {
                assert!(row.value.abs() < 1e8, "{name} {key}={value}: {row:?}");
            }
            holds(key, value, ran);
        }
    }
}
