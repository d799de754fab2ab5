//! The error band of a plan: published measurements, as shares of what the planner says of the same setting.

use super::{Direction, Load, Outcome, Part, Question, nic_of};
use crate::nics::{Choice, Description};
use serde::{Deserialize, Serialize};

const FILE: &str = include_str!("../../nics/measured.toml");
/// The size of the frames of all points.
const SIZE: u32 = 64;

/// A published measurement beside the planner's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The NIC's description.
    pub nic: String,
    /// The source.
    pub source: String,
    /// Millions of packets a second, as measured.
    pub measured_mpps: f64,
    /// The planner's figure.
    pub planned_mpps: f64,
    /// The part that stops it, by the planner.
    pub binding: Part,
    /// True if a number of the description was fitted to it.
    pub fitted: bool,
}

impl Point {
    /// Returns the measurement as a share of the plan.
    pub fn share(&self) -> f64 {
        self.measured_mpps / self.planned_mpps
    }
}

/// The measurements of the part that stops a plan, as shares of the planner's figures. The keys are a promise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The greatest.
    pub most: f64,
    /// The number of published points.
    pub points: usize,
}

#[derive(Debug, Deserialize)]
struct File {
    point: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    nic: String,
    link: String,
    direction: Direction,
    cores: u32,
    features: Vec<String>,
    #[serde(default)]
    off: Vec<String>,
    mpps: f64,
    #[serde(default)]
    fitted: bool,
    source: String,
}

impl Entry {
    /// Plans the setting; none if the file names what there is not.
    fn plan(self) -> Option<Point> {
        let description = Description::built_in(&self.nic)?.ok()?;
        let switched = |names: &[String], on| names.iter().map(|name| (name.clone(), on)).collect::<Vec<_>>();
        let features = [switched(&self.features, true), switched(&self.off, false)].concat();
        let question = Question {
            load: Load::one_size(SIZE),
            cores: self.cores,
            direction: self.direction,
            target: None,
            link: Some(self.link.parse().ok()?),
            choice: Choice { features: features.into_iter().collect(), ..Choice::default() },
        };
        let nic = nic_of(&description, &question, &question.choice).ok()?;
        let outcome = Outcome::new(&nic, &question, self.direction);
        Some(Point {
            nic: self.nic,
            source: self.source,
            measured_mpps: self.mpps,
            planned_mpps: outcome.pps as f64 / 1e6,
            binding: outcome.binding,
            fitted: self.fitted,
        })
    }
}

/// Returns all published points.
pub fn points() -> Vec<Point> {
    let file: File = toml::from_str(FILE).unwrap_or(File { point: Vec::new() });
    file.point.into_iter().filter_map(Entry::plan).collect()
}

impl Band {
    /// Returns the band of plans that `part` stops; none without a point that nothing was fitted to. Both directions of
    /// the bus count as one part; the NIC's own rate is that of `nic` alone.
    pub fn of(part: Part, nic: &str) -> Option<Self> {
        let is_bus = |part| matches!(part, Part::BusToNic | Part::BusToHost);
        let is_of = |point: &Point| point.binding == part || is_bus(point.binding) && is_bus(part);
        let mut shares: Vec<f64> = points()
            .iter()
            .filter(|point| is_of(point) && !point.fitted && (part != Part::Nic || point.nic == nic))
            .map(Point::share)
            .collect();
        shares.sort_by(f64::total_cmp);
        let (&least, &most) = shares.first().zip(shares.last())?;
        let [least, median, most] =
            [least, shares[shares.len() / 2], most].map(|share| (share * 100.0).round() / 100.0);
        Some(Self { least, median, most, points: shares.len() })
    }

    /// Returns the band in words, for a plan of `pps`.
    pub fn words(&self, part: Part, pps: u64) -> String {
        let Self { least, median, most, points } = self;
        let of = |share: f64| super::mpps((pps as f64 * share) as u64);
        format!(
            "Measured where the planner is stopped by the {}: {least:.2} to {most:.2} of its figure, median {median:.2} \
             ({points} published points), here {} to {} Mpps.",
            part.words(),
            of(*least),
            of(*most)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_point_is_planned_and_the_fitted_ones_come_out() {
        let points = points();
        assert_eq!(points.len(), FILE.matches("[[point]]").count());
        for point in points.iter().filter(|point| point.fitted) {
            assert!((point.share() - 1.0).abs() < 0.01, "{point:?}");
        }
        let mut off: Vec<f64> = points
            .iter()
            .filter(|point| !point.fitted)
            .map(|point| (1.0 / point.share() - 1.0).abs())
            .collect();
        off.sort_by(f64::total_cmp);
        assert!(off[off.len() / 2] <= 0.15, "median error: {off:?}");
    }

    #[test]
    fn a_band_holds_all_points_of_its_part() {
        for point in points().iter().filter(|point| !point.fitted) {
            let band = Band::of(point.binding, &point.nic).unwrap();
            assert!((band.least - 0.01..=band.most + 0.01).contains(&point.share()), "{point:?} {band:?}");
        }
        assert_eq!(Band::of(Part::Memory, "cx5"), None);
    }
}
