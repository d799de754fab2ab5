//! The table of all runs.

use crate::kind::{Device, Kind};
use crate::run::Outcome;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
struct Row {
    runs: u32,
    after: Duration,
    late: Duration,
    failures: BTreeMap<&'static str, u64>,
}

pub struct Table {
    seed: u64,
    runs: u64,
    rows: BTreeMap<(&'static str, Device), Row>,
    failures: Vec<String>,
}

impl Table {
    pub fn new(seed: u64) -> Self {
        Self { seed, runs: 0, rows: BTreeMap::new(), failures: Vec::new() }
    }

    pub fn add(&mut self, kind: &Kind, device: Device, outcome: Outcome) {
        eprintln!("  {:?} after {:?}, late by {:?}", kind.end, outcome.after, outcome.late);
        let row = self.rows.entry((kind.name, device)).or_default();
        row.runs += 1;
        row.after = row.after.max(outcome.after.unwrap_or(Duration::MAX));
        row.late = row.late.max(outcome.late);
        for (reason, count) in outcome.failures {
            *row.failures.entry(reason).or_default() += count;
        }
        for fault in outcome.faults.into_iter().chain(outcome.slow) {
            self.note(kind, device, &fault);
        }
        self.runs += 1;
    }

    /// Notes a run that had no end.
    pub fn fail(&mut self, kind: &Kind, device: Device, fault: &str) {
        self.note(kind, device, fault);
        self.runs += 1;
    }

    fn note(&mut self, kind: &Kind, device: Device, fault: &str) {
        let seed = self.seed.wrapping_add(self.runs);
        let line = format!("WHARF_SEED={seed} {}/{}: {fault}", device.name(), kind.name);
        eprintln!("{line}");
        self.failures.push(line);
    }

    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    pub fn print(&self) {
        println!("device      disturbance                              runs  after ms   late ms  failures");
        for ((name, device), row) in &self.rows {
            let late = row.late.as_secs_f64() * 1e3;
            let after =
                if row.after == Duration::MAX { "never".into() } else { row.after.as_millis().to_string() };
            let failures: Vec<_> =
                row.failures.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            let (device, runs, failures) = (device.name(), row.runs, failures.join(", "));
            println!("{device:<11} {name:<40} {runs:>4} {after:>9} {late:>9.1}  {failures}");
        }
        println!("{} runs, WHARF_SEED={}, {} faults", self.runs, self.seed, self.failures.len());
    }
}
