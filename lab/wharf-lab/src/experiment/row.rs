//! The results of an experiment: rows, and lines of pictures.

use super::effect::Effect;
use serde::Serialize;

/// The kind of a row's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A parameter was chosen to give it; all are as in the file.
    Fitted,
    /// It follows from parameters chosen for other rows, or set for this run.
    #[default]
    Predicted,
    /// It was measured on a real machine.
    Measured,
}

/// One figure. The keys are a promise: they are added to, never renamed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Row {
    /// The run.
    pub label: String,
    /// The device's name on the command line, if several ran the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The metric.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The published figure; `None` if there is none.
    pub published: Option<f64>,
    /// The figure.
    pub value: f64,
    /// The kind of figure.
    pub kind: RowKind,
    /// A note on it.
    pub note: Option<String>,
    /// True for a difference in percent, like the published one: the residual is in points.
    #[serde(skip)]
    pub in_points: bool,
    /// The figure of each thread or modelled processor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<f64>,
    /// The published effect and ours, if the source has this figure without the mechanism, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The least and the greatest figure over all seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
}

impl Row {
    /// Creates a row with a figure of `millionths`.
    pub fn new(
        label: &str, (metric, unit): (&'static str, &'static str), millionths: i64, kind: RowKind,
    ) -> Self {
        Self { label: label.into(), metric, unit, value: millionths as f64 / 1e6, kind, ..Self::default() }
    }

    /// Adds the effect: the change from `before`, the figure without the mechanism. Both stand beside published ones.
    #[must_use]
    pub fn effect_over(self, before: &Self) -> Self {
        let both = self.published.zip(before.published);
        let effect = both.and_then(|(now, was)| Effect::between([was, before.value], [now, self.value]));
        Self { effect, ..self }
    }

    /// Adds the effect of a share: the difference to `before`, in points.
    #[must_use]
    pub fn points_over(self, before: &Self) -> Self {
        let both = self.published.zip(before.published);
        let effect = both.map(|(now, was)| Effect::new(now - was, self.value - before.value));
        Self { effect, ..self }
    }

    /// Marks the figure, a difference beside a published one, as an effect.
    #[must_use]
    pub fn is_effect(self) -> Self {
        Self { effect: self.published.map(|published| Effect::new(published, self.value)), ..self }
    }

    /// Adds the figure of each thread.
    #[must_use]
    pub fn by_thread(mut self, figures: Vec<f64>) -> Self {
        self.by_thread = figures;
        self
    }

    /// Adds the device.
    #[must_use]
    pub fn by_device(mut self, device: &str) -> Self {
        self.device = Some(device.into());
        self
    }

    /// Returns the run, with the device if there are several.
    pub fn of(&self) -> String {
        match &self.device {
            Some(device) => format!("{} by {device}", self.label),
            None => self.label.clone(),
        }
    }

    /// Sets it beside a published figure. The residual of a prediction is noted; above a factor of two, the
    /// row is marked as not reproduced.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Self {
        self.published = Some(published);
        if self.kind != RowKind::Predicted {
            return self;
        }
        let off = percent_off(self.value, published);
        if self.value >= published / 2.0 && self.value <= published * 2.0 {
            return self.saying(&format!("{off} from what was published"));
        }
        self.saying(&format!("not reproduced: off by more than a factor of 2 ({off})"))
    }

    /// Sets it beside a published difference in percent: around 0, the residual is in points.
    #[must_use]
    pub fn beside_in_points(mut self, published: f64) -> Self {
        (self.published, self.in_points) = (Some(published), true);
        let off = format!("{:+.1} points from what was published", self.value - published);
        self.saying(&off)
    }

    /// Sets it beside `published`, which the sources permit to read as anything from `least` to `most`. The
    /// note says if a prediction lies among the readings, or its residual.
    #[must_use]
    pub fn read_as(mut self, published: f64, least: f64, most: f64) -> Self {
        // A user's figures may put the least above the most, where `clamp` panics.
        let nearest = self.value.max(least).min(most);
        let place = if nearest == self.value {
            format!("within what can be read, {least} to {most}")
        } else {
            format!("outside what can be read, {least} to {most}, by {}", percent_off(self.value, nearest))
        };
        self.published = Some(published);
        let off = percent_off(self.value, published);
        self.saying(&format!("{off} from what was published; {place}"))
    }

    /// Adds `what` to the note.
    #[must_use]
    pub fn saying(mut self, what: &str) -> Self {
        self.note = Some(match self.note {
            Some(note) => format!("{note}; {what}"),
            None => what.into(),
        });
        self
    }
}

/// Returns `part` x `scale` / `whole`; a whole of 0 counts as 1.
pub(super) fn scaled(part: u64, scale: u64, whole: u64) -> i64 {
    (u128::from(part) * u128::from(scale) / u128::from(whole.max(1))) as i64
}

/// Returns Jain's index of fairness in millionths: 1 if all have the same, 1/n if one has all, and 1 for
/// nothing at all.
pub(crate) fn jain_ppm(shares: impl Iterator<Item = u64>) -> i64 {
    let shares: Vec<u64> = shares.collect();
    // Beyond 48 bits of the shares the last do not matter; without them, millionths of the squares fit.
    let most_bits = shares.iter().max().map_or(0, |most| u64::BITS - most.leading_zeros());
    let (mut sum, mut squares) = (0u128, 0u128);
    for share in shares.iter().map(|share| u128::from(share >> most_bits.saturating_sub(48))) {
        (sum, squares) = (sum + share, squares + share * share);
    }
    let count = shares.len() as u128;
    if squares == 0 { 1_000_000 } else { (sum * sum * 1_000_000 / (count * squares)) as i64 }
}

/// Returns the residual of `value` to `published`.
fn percent_off(value: f64, published: f64) -> String {
    if published == 0.0 {
        return format!("{value:+.1} where there was 0");
    }
    format!("{:+.1} %", (value / published - 1.0) * 100.0)
}

/// A line of a picture. The keys are a promise, as those of [`Row`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The picture that it belongs to.
    pub chart: String,
    /// The name of the line.
    pub line: String,
    /// The quantity of the x axis, with its unit.
    pub x: &'static str,
    /// The quantity of the y axis, with its unit.
    pub y: &'static str,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Adds a point to the line of its chart: `(chart, line, x, y)`. The first point begins the line.
pub(super) fn add_point(
    all: &mut Vec<Series>, (chart, line, x, y): (String, String, &'static str, &'static str),
    point: (f64, f64),
) {
    match all.iter_mut().find(|series| series.chart == chart && series.line == line) {
        Some(series) => series.points.push(point),
        None => all.push(Series { chart, line, x, y, points: vec![point] }),
    }
}

/// Returns the median, of an even number the greater of the two in the middle; 0 of none.
pub(super) fn median<T: PartialOrd + Copy + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_1_for_equals_and_1_by_n_for_a_monopoly() {
        assert_eq!(jain_ppm([7, 7, 7].into_iter()), 1_000_000);
        assert_eq!(jain_ppm([0, 0, 5, 0].into_iter()), 250_000);
        assert_eq!(jain_ppm([2, 1].into_iter()), 900_000);
        assert_eq!(jain_ppm([0, 0].into_iter()), 1_000_000);
        assert_eq!(jain_ppm([u64::MAX >> 1, u64::MAX >> 1].into_iter()), 1_000_000);
    }
}
