//! Published figures, from `parameters/published.toml`.

use super::LabError;

const FILE: &str = include_str!("../../parameters/published.toml");

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

/// Returns the sources of the published figures of `experiment`.
///
/// # Errors
/// [`LabError::File`]: the file is no TOML.
pub fn sources(experiment: &str) -> Result<Vec<Source>, LabError> {
    let table = table()?;
    let text =
        |section: &toml::Value, key| section.get(key).and_then(toml::Value::as_str).map(str::to_string);
    let is_of = |section: &&toml::Value| {
        let experiments = section.get("experiments").and_then(toml::Value::as_array);
        experiments.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(experiment)))
    };
    let source = |section: &toml::Value| Source {
        name: text(section, "source").unwrap_or_default(),
        url: text(section, "url"),
        labels: text(section, "labels").unwrap_or_default(),
    };
    Ok(table.values().filter(is_of).map(source).collect())
}

/// Returns the figure under `path`, keys joined by points: `bulk_dequeue.trafgen_12cpu_bulk_mpps`. In a list,
/// a number is the key: `pcie.xdp_tx_readings_mpps.1.0`.
///
/// # Errors
/// [`LabError::File`]: there is no such number.
pub fn figure(path: &str) -> Result<f64, LabError> {
    let mut value = &toml::Value::Table(table()?);
    for key in path.split('.') {
        let nth = value.as_array().and_then(|list| list.get(key.parse::<usize>().ok()?));
        value = nth.or_else(|| value.get(key)).ok_or_else(|| fault(format!("there is no {path}")))?;
    }
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    number.ok_or_else(|| fault(format!("{path} is no number")))
}

fn fault(what: String) -> LabError {
    LabError::File { file: "published.toml".into(), what }
}

fn table() -> Result<toml::Table, LabError> {
    FILE.parse().map_err(|error: toml::de::Error| fault(error.message().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_experiment_finds_the_sources_of_its_rows() {
        let pcie = sources("pcie").unwrap();
        let of = |label| &Source::of(&pcie, label).unwrap().name;
        assert!(of("xdp_tx/before").starts_with("Toukan") && of("socket-1/off").starts_with("Mikityanskiy"));
        assert_eq!(sources("bql").unwrap(), []);
        for name in ["batching", "bulk", "drops", "fairness", "hol", "pages", "pcie", "tx-napi"] {
            let all = sources(name).unwrap();
            assert!(all.iter().any(|source| source.labels.is_empty()), "{name}");
            assert!(all.iter().all(|source| !source.name.is_empty()), "{name}");
        }
    }
}
