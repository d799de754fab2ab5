//! Predicted beside measured.

use super::{Scenario, host, model};
use crate::experiment::{LabError, Row, RowKind};
use serde::Serialize;
use std::time::Duration;

/// A figure of both worlds. The keys are a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The sender, or `all`.
    pub label: String,
    /// The metric.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure in virtual time.
    pub predicted: f64,
    /// The figure on this machine: the median over rounds.
    pub measured: f64,
    /// The least and the greatest measured.
    pub spread: [f64; 2],
    /// Predicted less measured, in percent of that; null where that is 0.
    pub error_percent: Option<f64>,
}

/// A scenario in both worlds. The keys are a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The scenario's file.
    pub scenario: String,
    /// The generator's seed.
    pub seed: u64,
    /// The device on this machine.
    pub device: &'static str,
    /// Rounds measured.
    pub rounds: u32,
    /// The figures.
    pub rows: Vec<Compared>,
}

impl Comparison {
    /// Predicts `scenario`, measures it `rounds` times for `time` each, and compares.
    ///
    /// # Errors
    /// Those of [`predict`](super::predict) and [`measure`](super::measure).
    pub fn new(
        scenario: &Scenario, seed: u64, rounds: u32, time: Duration, goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LabError> {
        let predicted = model::figures(scenario, seed, goes_on)?.rows(scenario, RowKind::Predicted);
        let mut measured = Vec::new();
        for round in 0..rounds {
            let figures = host::figures(scenario, seed.wrapping_add(round.into()), time, goes_on)?;
            measured.push(figures.rows(scenario, RowKind::Measured));
        }
        let rows = predicted.iter().filter_map(|row| compared(row, &measured)).collect();
        let device = if scenario.link.is_some() { "line" } else { "null" };
        Ok(Self { scenario: scenario.file.clone(), seed, device, rounds, rows })
    }
}

/// Returns a predicted row beside the measured ones of its name; none if that was not measured.
fn compared(predicted: &Row, rounds: &[Vec<Row>]) -> Option<Compared> {
    let is_it = |row: &&Row| row.label == predicted.label && row.metric == predicted.metric;
    let mut values: Vec<f64> =
        rounds.iter().filter_map(|rows| Some(rows.iter().find(is_it)?.value)).collect();
    values.sort_by(f64::total_cmp);
    let (&least, &most) = values.first().zip(values.last())?;
    let measured = values[values.len() / 2];
    Some(Compared {
        label: predicted.label.clone(),
        metric: predicted.metric,
        unit: predicted.unit,
        predicted: predicted.value,
        measured,
        spread: [least, most],
        error_percent: (measured != 0.0).then(|| (predicted.value / measured - 1.0) * 100.0),
    })
}
