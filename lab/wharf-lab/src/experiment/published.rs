//! Published figures: the tables `published` in an experiment's scenario.

use super::{Experiment, LabError};
use toml::{Table, Value};

/// Sizes of a figure that is not 0.
const SIZES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// A source of published figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Author, title, place and year.
    pub name: String,
    /// An address at which it can be read, if one is known.
    pub url: Option<String>,
    /// The beginning of the labels of the rows beside its figures; empty for all of the experiment.
    labels: String,
}

impl Source {
    /// Returns the source of the row with this label: of those whose labels begin so, the narrowest.
    pub fn of<'a>(sources: &'a [Self], label: &str) -> Option<&'a Self> {
        let fitting = sources.iter().filter(|source| label.starts_with(&source.labels));
        fitting.max_by_key(|source| source.labels.len())
    }
}

/// The published figures of an experiment.
#[derive(Debug, Clone)]
pub struct Published {
    experiment: &'static str,
    sections: Value,
    /// True if some are not those to which parameters were fitted.
    pub(super) are_others: bool,
}

impl Published {
    /// Returns the figures of the experiment's scenario.
    ///
    /// # Errors
    /// [`LabError::File`]: the scenario is no TOML.
    pub fn of(experiment: &Experiment) -> Result<Self, LabError> {
        let (text, experiment) = (experiment.scenario(), experiment.name);
        let fault = |error: toml::de::Error| fault(experiment, error.message().to_string());
        let sections = text.parse::<Table>().map_err(fault)?.remove("published");
        Ok(Self { experiment, sections: sections.unwrap_or(Value::Table(Table::new())), are_others: false })
    }

    /// Returns the sources.
    pub fn sources(&self) -> Vec<Source> {
        let source = |section: &Value| {
            let text = |key| section.get(key).and_then(Value::as_str).map(str::to_string);
            let url = text("url").filter(|url| url.starts_with("https://"));
            Source {
                name: text("source").unwrap_or_default(),
                url,
                labels: text("labels").unwrap_or_default(),
            }
        };
        self.sections.as_table().into_iter().flat_map(Table::values).map(source).collect()
    }

    /// Returns the figure under `path`, keys joined by points: `bulk_dequeue.trafgen_12cpu_bulk_mpps`. In a list,
    /// a number is the key: `pcie.xdp_tx_readings_mpps.1.0`.
    ///
    /// # Errors
    /// [`LabError::File`]: there is no such number.
    pub fn figure(&self, path: &str) -> Result<f64, LabError> {
        let missing = || fault(self.experiment, format!("there is no {path}"));
        let mut value = &self.sections;
        for key in path.split('.') {
            let nth = value.as_array().and_then(|list| list.get(key.parse::<usize>().ok()?));
            value = nth.or_else(|| value.get(key)).ok_or_else(missing)?;
        }
        number(value).ok_or_else(|| fault(self.experiment, format!("{path} is no number")))
    }

    /// Replaces what `sections` has, of the same names and in the same structure. The file is the source of figures that
    /// come without one.
    ///
    /// # Errors
    /// Says what is otherwise.
    pub(super) fn replace(&mut self, file: &str, sections: Value) -> Result<(), String> {
        let (before, given) = (self.sections.clone(), sections.clone());
        self.are_others |= replace("published", &mut self.sections, sections)?;
        // The source of other figures says nothing of these.
        for (name, section) in self.sections.as_table_mut().into_iter().flatten() {
            let has_source = given.get(name).is_some_and(|section| section.get("source").is_some());
            let differs = before.get(name) != Some(&*section);
            if let Some(table) = section.as_table_mut().filter(|_| differs && !has_source) {
                table.insert("source".into(), file.into());
                table.remove("url");
            }
        }
        Ok(())
    }
}

/// Puts what `new` has into `old`. True if a number has changed.
fn replace(path: &str, old: &mut Value, new: Value) -> Result<bool, String> {
    let mut are_others = false;
    match (old, new) {
        (Value::Table(old), Value::Table(new)) => {
            for (key, new) in new {
                let there = names(old);
                let old =
                    old.get_mut(&key).ok_or_else(|| format!("{path} has no {key:?}: it has {there}"))?;
                are_others |= replace(&format!("{path}.{key}"), old, new)?;
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter_mut().zip(new).enumerate() {
                are_others |= replace(&format!("{path}.{at}"), old, new)?;
            }
        }
        (Value::String(old), Value::String(new)) => *old = new,
        (old, new) => match (number(old), number(&new)) {
            (Some(was), Some(is)) if is == 0.0 || SIZES.contains(&is.abs()) => {
                are_others = was != is;
                *old = new;
            }
            (Some(_), Some(is)) => {
                return Err(format!("{path}: {is} cannot be: want 0, or from 1e-6 to 1e9 in size"));
            }
            _ => return Err(format!("{path}: want {}", shape(old))),
        },
    }
    Ok(are_others)
}

/// Returns a number's value.
fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// Returns the structure of `value` in words.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Table(table) => format!("a table of {}", names(table)),
        Value::String(_) => "a text".into(),
        _ => "a number".into(),
    }
}

fn names(table: &Table) -> String {
    table.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn fault(experiment: &str, what: String) -> LabError {
    LabError::File { file: format!("{experiment}.toml"), what }
}

#[cfg(test)]
mod tests {
    use super::super::{all, named};
    use super::*;

    fn published(experiment: &str) -> Published {
        Published::of(named(experiment).unwrap()).unwrap()
    }

    #[test]
    fn each_experiment_finds_the_sources_of_its_rows() {
        let pcie = published("pcie").sources();
        let of = |label| &Source::of(&pcie, label).unwrap().name;
        assert!(of("xdp_tx/before").starts_with("Toukan") && of("socket-1/off").starts_with("Mikityanskiy"));
        assert_eq!(published("bql").sources(), []);
        for name in all().iter().map(|experiment| experiment.name) {
            let all = published(name).sources();
            assert!(all.is_empty() || all.iter().any(|source| source.labels.is_empty()), "{name}");
            assert!(all.iter().all(|source| !source.name.is_empty()), "{name}");
        }
    }

    #[test]
    fn figures_are_found_by_their_path() {
        let (bulk, pcie) = (published("bulk"), published("pcie"));
        assert_eq!(bulk.figure("bulk_dequeue.trafgen_12cpu_bulk_mpps").unwrap(), 14.8);
        assert_eq!(bulk.figure("bulk_dequeue.tcp24_bulk.soft_percent").unwrap(), 7.66);
        assert_eq!(pcie.figure("pcie.xdp_drop_mpps.after").unwrap(), 130.0);
        assert_eq!(pcie.figure("pcie.xdp_tx_readings_mpps.1.0").unwrap(), 70.0);
        for (path, wanted) in [
            ("bulk_dequeue.source", "bulk_dequeue.source is no number"),
            ("bulk_dequeue", "bulk_dequeue is no number"),
            ("nothing.there", "there is no nothing.there"),
            ("bulk_dequeue.tcp24_bulk.3", "there is no bulk_dequeue.tcp24_bulk.3"),
        ] {
            assert_eq!(bulk.figure(path).unwrap_err().to_string(), format!("bulk.toml: {wanted}"));
        }
        let beyond = ["pcie.xdp_tx_readings_mpps.3.0", "pcie.xdp_tx_readings_mpps.x"];
        assert!(beyond.iter().all(|path| pcie.figure(path).is_err()));
    }

    #[test]
    fn equal_figures_are_no_others() {
        let mut bulk = published("bulk");
        let mut replace = |text: &str| {
            bulk.replace("mine.toml", Value::Table(text.parse().unwrap())).unwrap();
            bulk.are_others
        };
        assert!(!replace("[bulk_dequeue]\ntrafgen_12cpu_bulk_mpps = 14.80\nsource = \"another\""));
        assert!(replace("[bulk_dequeue]\ntcp24_bulk = { soft_percent = 8 }"));
        let source = &bulk.sources()[0];
        assert_eq!(
            (source.name.as_str(), source.url.as_deref()),
            ("mine.toml", None),
            "the file's own figures"
        );
        assert_eq!(bulk.figure("bulk_dequeue.tcp24_bulk.soft_percent").unwrap(), 8.0);
        assert_eq!(bulk.figure("bulk_dequeue.tcp24_bulk.idle_percent").unwrap(), 89.79);
    }
}
