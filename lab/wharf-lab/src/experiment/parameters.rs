//! Parameters: whole numbers with a kind and a source, in files.

use super::{LabError, RowKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wharf_plan::nics::{Choice, Description, Mark};

/// The allowed values of a number.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Allowed {
    /// From the first to the second.
    Within([u64; 2]),
    /// Some values only.
    OneOf {
        /// The values, least first.
        one_of: Vec<u64>,
    },
}

impl Allowed {
    /// True if it may be set to `value`.
    pub fn has(&self, value: u64) -> bool {
        match self {
            Self::Within([least, most]) => (least..=most).contains(&&value),
            Self::OneOf { one_of } => one_of.contains(&value),
        }
    }

    /// Returns the least and the greatest value.
    pub fn ends(&self) -> [u64; 2] {
        match self {
            Self::Within(ends) => *ends,
            Self::OneOf { one_of } => [one_of.first(), one_of.last()].map(|end| end.copied().unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Within([least, most]) => write!(f, "a whole number from {least} to {most}"),
            Self::OneOf { one_of } => {
                let names: Vec<String> = one_of.iter().map(u64::to_string).collect();
                write!(f, "one of {}", names.join(", "))
            }
        }
    }
}

/// One number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The number, in the unit at the end of its name.
    pub value: u64,
    /// Its origin.
    pub kind: Mark,
    /// Its allowed values.
    #[serde(skip_serializing)]
    pub allowed: Allowed,
    /// The source, or the reason.
    pub source: String,
    /// The published figure that bounds it, if it was chosen with one in view but not fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<String>,
}

/// All numbers of an experiment, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Parameters {
    #[serde(skip)]
    experiment: String,
    /// True if rows stand beside other published figures than those to which numbers were fitted.
    #[serde(skip)]
    pub(super) beside_others: bool,
    entries: BTreeMap<String, Parameter>,
}

impl Parameters {
    /// Parses the file of `experiment`.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn read(experiment: &str, text: &str) -> Result<Self, LabError> {
        let entries = toml::from_str(text).map_err(|error| fault(experiment, &error.to_string()))?;
        Self::checked(experiment, entries)
    }

    /// Checks that each number is an allowed one.
    fn checked(experiment: &str, entries: BTreeMap<String, Parameter>) -> Result<Self, LabError> {
        for (key, Parameter { value, allowed, .. }) in &entries {
            if !allowed.has(*value) {
                return Err(fault(experiment, &format!("{key} of {value} is not {allowed}")));
            }
        }
        Ok(Self { experiment: experiment.to_string(), beside_others: false, entries })
    }

    /// Parses the files of `experiment`: its own, and the machine's that it shares with others. The own file lists
    /// under `machine` the numbers that it takes from there; `experiment` and `published` are for others. A number with `nic` and `key` is that of the planner's
    /// description.
    ///
    /// # Errors
    /// [`LabError::File`]: also if a number is in both files, or in none.
    pub fn read_all(experiment: &str, texts: &[&str]) -> Result<Self, LabError> {
        let [own, machines @ ..] = texts else { return Self::read(experiment, "") };
        let fault = |what: String| fault(experiment, &what);
        let parse = |text: &str| -> Result<toml::Table, LabError> {
            let mut table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| fault(error.to_string()))?;
            table.iter_mut().try_for_each(|(key, entry)| {
                let table = entry.as_table_mut();
                table.map_or(Ok(()), described).map_err(|what| fault(format!("{key}: {what}")))
            })?;
            Ok(table)
        };
        let numbers = |table: toml::Table| {
            let entries = table.try_into().map_err(|error: toml::de::Error| fault(error.to_string()))?;
            Self::checked(experiment, entries)
        };
        let mut own = parse(own)?;
        let [taken, ..] = ["machine", "experiment", "published"].map(|key| own.remove(key));
        let taken = taken.iter().filter_map(toml::Value::as_array).flatten().filter_map(toml::Value::as_str);
        let machines: Result<Vec<Self>, LabError> =
            machines.iter().map(|text| numbers(parse(text)?)).collect();
        let (machines, mut all) = (machines?, numbers(own)?);
        for key in taken {
            let found = machines.iter().find_map(|machine| machine.entries.get(key));
            let found = found.ok_or_else(|| fault(format!("no machine has {key}")))?;
            if all.entries.insert(key.to_string(), found.clone()).is_some() {
                return Err(fault(format!("{key} is the machine's and the experiment's")));
            }
        }
        Ok(all)
    }

    /// Sets one, by `key=value`, once.
    ///
    /// # Errors
    /// [`LabError::Assignment`], [`LabError::Key`], [`LabError::Value`], [`LabError::Twice`].
    pub fn set(&mut self, assignment: &str) -> Result<(), LabError> {
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(LabError::Assignment(assignment.into()));
        };
        let Some(parameter) = self.entries.get_mut(key) else { return Err(self.unknown(key)) };
        let allowed = &parameter.allowed;
        let wrong = || LabError::Value { key: key.into(), value: value.into(), allowed: allowed.clone() };
        let number = value.parse().ok().filter(|&number| allowed.has(number)).ok_or_else(wrong)?;
        if parameter.kind == Mark::Set {
            return Err(LabError::Twice(key.into()));
        }
        (parameter.value, parameter.kind) = (number, Mark::Set);
        parameter.source = "set for this run".into();
        Ok(())
    }

    /// Returns the number of that name.
    ///
    /// # Errors
    /// [`LabError::Key`]: the file lacks it.
    pub fn get(&self, key: &str) -> Result<u64, LabError> {
        self.entry(key).map(|parameter| parameter.value)
    }

    /// Returns the number of that name with all that is said of it.
    ///
    /// # Errors
    /// [`LabError::Key`]: the file lacks it.
    pub(super) fn entry(&self, key: &str) -> Result<&Parameter, LabError> {
        self.entries.get(key).ok_or_else(|| self.unknown(key))
    }

    /// Puts `value` in place of another one, unless that was set.
    pub(super) fn replace(&mut self, key: &str, value: u64, source: &str) {
        let is_another = |one: &&mut Parameter| one.kind != Mark::Set && one.value != value;
        if let Some(parameter) = self.entries.get_mut(key).filter(is_another) {
            (parameter.value, parameter.kind, parameter.source) = (value, Mark::Set, source.into());
        }
    }

    /// Returns the number of that name, of which others require at least `least`.
    ///
    /// # Errors
    /// [`LabError::Key`]: the file lacks it; [`LabError::Value`]: it is less.
    pub fn at_least(&self, key: &str, least: u64) -> Result<u64, LabError> {
        let value = self.get(key)?;
        if value >= least {
            return Ok(value);
        }
        let most = self.entries.get(key).map_or(u64::MAX, |parameter| parameter.allowed.ends()[1]);
        Err(LabError::Value {
            key: key.into(),
            value: value.to_string(),
            allowed: Allowed::Within([least, most]),
        })
    }

    /// Returns the kind of a row that parameters `keys` were fitted to. It is a prediction once anything is
    /// set, or published figures are others, since the fit holds for the file as a whole.
    pub fn fit(&self, keys: &[&str]) -> RowKind {
        let is = |key: &str, kind| self.entries.get(key).is_some_and(|entry| entry.kind == kind);
        let any_set = self.beside_others || self.entries.keys().any(|key| is(key, Mark::Set));
        debug_assert!(any_set || keys.iter().all(|key| is(key, Mark::Fitted)), "{keys:?}");
        if any_set { RowKind::Predicted } else { RowKind::Fitted }
    }

    /// Returns all numbers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.entries.iter().map(|(key, parameter)| (key.as_str(), parameter))
    }

    fn unknown(&self, key: &str) -> LabError {
        let there = self.entries.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        LabError::Key { experiment: self.experiment.clone(), key: key.into(), there }
    }
}

/// Returns an error about the file of `experiment`, in one line.
fn fault(experiment: &str, what: &str) -> LabError {
    LabError::File { file: format!("{experiment}.toml"), what: what.trim().replace('\n', " ") }
}

/// Fills a number that names a NIC and a key of the planner's description: its value, kind and source.
pub(super) fn described(table: &mut toml::Table) -> Result<(), String> {
    if !table.contains_key("nic") {
        return Ok(());
    }
    let mut text = |key: &str| match table.remove(key) {
        Some(toml::Value::String(text)) => Ok(text),
        _ => Err(format!("{key} is missing")),
    };
    let (name, key) = (text("nic")?, text("key")?);
    let description = Description::built_in(&name).ok_or_else(|| format!("there is no NIC {name:?}"))?;
    let nic = description
        .and_then(|description| description.nic(&Choice::default()))
        .map_err(|error| error.to_string())?;
    let figure = nic.figures().into_iter().find(|figure| figure.key == key).cloned();
    if table.contains_key("value") {
        return Err(format!("it has a value, and {name}'s: leave one out"));
    }
    let figure = figure.ok_or_else(|| format!("{name} has no {key:?}"))?;
    table.insert("value".into(), toml::Value::Integer(figure.value as i64));
    table.insert("kind".into(), figure.mark.name().into());
    table.insert("source".into(), format!("wharf plan, {name}.toml, {key}: {}", figure.source).into());
    Ok(())
}
