//! What an experiment reports: figures, and lines of pictures.

use serde::Serialize;

/// What a row's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A parameter was chosen so that it comes out; all are as they are in the file.
    Fitted,
    /// It follows from parameters chosen for other rows, or set for this run.
    Predicted,
    /// It was measured on a real machine.
    Measured,
}

/// One figure. The keys are a promise: they are added to, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Of what.
    pub label: String,
    /// By which device, as one is named on the command line, where the same was run by several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Which figure.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What was published; `None` where nothing was.
    pub published: Option<f64>,
    /// What came out.
    pub value: f64,
    /// What kind of figure that is.
    pub kind: RowKind,
    /// What is to be said about it.
    pub note: Option<String>,
    /// It is a difference in percent, as what was published is: what it is off by is told in points.
    #[serde(skip)]
    pub in_points: bool,
    /// Where it is of several threads, or modelled processors: the figure of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<f64>,
}

impl Row {
    /// A figure of `millionths`.
    pub fn new(
        label: &str, (metric, unit): (&'static str, &'static str), millionths: i64, kind: RowKind,
    ) -> Self {
        let value = millionths as f64 / 1e6;
        let (device, published, note, by_thread) = (None, None, None, Vec::new());
        let (label, in_points) = (label.to_string(), false);
        Self { label, device, metric, unit, published, value, kind, note, in_points, by_thread }
    }

    /// With the figure of each thread.
    #[must_use]
    pub fn by_thread(mut self, figures: Vec<f64>) -> Self {
        self.by_thread = figures;
        self
    }

    /// Of a run by that device.
    #[must_use]
    pub fn by_device(mut self, device: &str) -> Self {
        self.device = Some(device.into());
        self
    }

    /// What it is of, with the device where there are several.
    pub fn of(&self) -> String {
        match &self.device {
            Some(device) => format!("{} by {device}", self.label),
            None => self.label.clone(),
        }
    }

    /// Beside what was published. What a prediction is off by is noted; by more than a factor of two, it is marked as
    /// not reproduced.
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

    /// Beside a difference that was published, in percent: around 0, what it is off by is told in points.
    #[must_use]
    pub fn beside_in_points(mut self, published: f64) -> Self {
        (self.published, self.in_points) = (Some(published), true);
        let off = format!("{:+.1} points from what was published", self.value - published);
        self.saying(&off)
    }

    /// Beside `published`, where the sources can be read as anything from `least` to `most`. Whether a prediction lies
    /// among the readings is noted, or what it is off by.
    #[must_use]
    pub fn read_as(mut self, published: f64, least: f64, most: f64) -> Self {
        let nearest = self.value.clamp(least, most);
        let place = if nearest == self.value {
            format!("within what can be read, {least} to {most}")
        } else {
            format!("outside what can be read, {least} to {most}, by {}", percent_off(self.value, nearest))
        };
        self.published = Some(published);
        let off = percent_off(self.value, published);
        self.saying(&format!("{off} from what was published; {place}"))
    }

    /// With `what` said about it, too.
    #[must_use]
    pub fn saying(mut self, what: &str) -> Self {
        self.note = Some(match self.note {
            Some(note) => format!("{note}; {what}"),
            None => what.into(),
        });
        self
    }
}

/// By how much `value` is off `published`.
fn percent_off(value: f64, published: f64) -> String {
    if published == 0.0 {
        return format!("{value:+.1} where there was 0");
    }
    format!("{:+.1} %", (value / published - 1.0) * 100.0)
}

/// A line of a picture. The keys are a promise, as those of [`Row`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Which picture it belongs to.
    pub chart: String,
    /// What the line is of.
    pub line: String,
    /// What its points are over, and what they show, with units.
    pub x: &'static str,
    /// What they show.
    pub y: &'static str,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}
