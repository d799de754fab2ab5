//! A user's file for an experiment, in the format of `scenarios/NAME.toml`. It has some of the experiment's parameters, and
//! some of its published figures.

use super::parameters::described;
use super::published::Published;
use super::{Experiment, LabError, Parameters, named, parameters_of};
use toml::{Table, Value};

/// The keys of a number.
const SAID: [&str; 5] = ["value", "kind", "allowed", "source", "bound_by"];

/// Numbers in place of an experiment's own.
#[derive(Debug, Clone)]
pub struct OwnNumbers {
    pub(super) experiment: &'static Experiment,
    pub(super) published: Published,
    /// The parameters, each with its value and its source.
    values: Vec<(String, u64, String)>,
}

impl OwnNumbers {
    /// True if this file has numbers for an experiment, and is not a scenario with senders.
    pub fn are_in(text: &str) -> bool {
        text.parse::<Table>().is_ok_and(|table| table.contains_key("experiment"))
    }

    /// Parses the file of this name.
    ///
    /// # Errors
    /// [`LabError::File`] names the line or the key, and what it can be.
    pub fn parse(file: &str, text: &str) -> Result<Self, LabError> {
        let fault = |what: String| LabError::File { file: file.into(), what };
        let table: Table = text.parse().map_err(|error| LabError::of_toml(file, &error, text))?;
        let name = table.get("experiment").and_then(Value::as_str);
        let name = name.ok_or_else(|| fault("experiment: want a name, as in \"bulk\"".into()))?;
        let experiment = named(name).map_err(|error| fault(error.to_string()))?;
        let built_in = parameters_of(experiment, experiment.worlds[0].0)?;
        let (mut published, mut values) = (Published::of(experiment)?, Vec::new());
        for (key, entry) in table {
            match key.as_str() {
                "experiment" => {}
                "published" => published.replace(file, entry).map_err(fault)?,
                "machine" => check_machine(&entry, &built_in).map_err(fault)?,
                _ => {
                    let (value, source) = number(file, &key, entry, &built_in).map_err(fault)?;
                    values.push((key, value, source));
                }
            }
        }
        Ok(Self { experiment, published, values })
    }

    /// Puts the numbers in place of the experiment's. Those that were set stay.
    pub(super) fn put_into(&self, parameters: &mut Parameters) {
        parameters.beside_others = self.published.are_others;
        self.values.iter().for_each(|(key, value, source)| parameters.replace(key, *value, source));
    }
}

/// Checks the list of parameters that the experiment shares with others. Their values are built in.
fn check_machine(list: &Value, built_in: &Parameters) -> Result<(), String> {
    let list = list.as_array().ok_or("machine: want a list of parameters")?;
    for key in list {
        let key = key.as_str().ok_or("machine: want a list of parameters")?;
        built_in.entry(key).map_err(|error| format!("machine: {error}"))?;
    }
    Ok(())
}

/// Returns the value of the parameter `key`, and its source.
fn number(file: &str, key: &str, entry: Value, built_in: &Parameters) -> Result<(u64, String), String> {
    let there = built_in.entry(key).map_err(|error| error.to_string())?;
    let mut table = match entry {
        Value::Table(table) => table,
        value => Table::from_iter([("value".to_string(), value)]),
    };
    described(&mut table).map_err(|what| format!("{key}: {what}"))?;
    if let Some(unknown) = table.keys().find(|name| !SAID.contains(&name.as_str())) {
        return Err(format!("{key} has no {unknown:?}: it can have {}, or nic and key", SAID.join(", ")));
    }
    let want = |what: &str| format!("{key}: {what} cannot be: want {}", there.allowed);
    let value = table.remove("value").ok_or_else(|| format!("{key}: value is missing"))?;
    let whole = value.as_integer().ok_or_else(|| want(&format!("the type {}", value.type_str())))?;
    let value = u64::try_from(whole).ok().filter(|&value| there.allowed.has(value));
    let value = value.ok_or_else(|| want(&whole.to_string()))?;
    // The source of another value says nothing of this one.
    let source = table.remove("source");
    let source = source.as_ref().and_then(Value::as_str).filter(|&source| source != there.source);
    Ok((value, source.map_or(format!("set in {file}"), str::to_string)))
}

#[cfg(test)]
mod tests {
    use super::super::{Mark, all};
    use super::*;
    use proptest::prelude::*;

    fn fault(text: &str) -> String {
        OwnNumbers::parse("mine.toml", text).unwrap_err().to_string()
    }

    /// Returns the parameters of `bulk` after `set` with the numbers of this file.
    fn bulk(text: &str, set: &[&str]) -> Parameters {
        let own = OwnNumbers::parse("mine.toml", &format!("experiment = \"bulk\"\n{text}")).unwrap();
        let mut parameters = parameters_of(own.experiment, own.experiment.worlds[0].0).unwrap();
        set.iter().for_each(|assignment| parameters.set(assignment).unwrap());
        own.put_into(&mut parameters);
        parameters
    }

    #[test]
    fn each_scenario_as_it_is_changes_nothing() {
        for experiment in all() {
            let own = OwnNumbers::parse("mine.toml", experiment.scenario()).unwrap();
            let built_in = parameters_of(experiment, experiment.worlds[0].0).unwrap();
            let mut parameters = built_in.clone();
            own.put_into(&mut parameters);
            assert!(!own.published.are_others, "{}", experiment.name);
            assert_eq!((own.experiment.name, parameters), (experiment.name, built_in));
        }
    }

    #[test]
    fn what_differs_is_set() {
        let text = "doorbell_ps = 200000\ncpus = 12\nstreams = { value = 8, source = \"as here\" }";
        let parameters = bulk(text, &["ring_frames=64"]);
        let of = |key: &str| {
            let entry = parameters.entry(key).unwrap();
            (entry.value, entry.kind, entry.source.as_str())
        };
        assert_eq!(of("doorbell_ps"), (200_000, Mark::Set, "set in mine.toml"));
        assert_eq!(of("streams"), (8, Mark::Set, "as here"));
        assert_eq!((of("cpus").1, of("ring_frames").0), (Mark::Published, 64));
        let parameters = bulk("[ring_frames]\nvalue = 1024", &["ring_frames=64"]);
        assert_eq!(parameters.get("ring_frames").unwrap(), 64, "the command line comes last");
    }

    #[test]
    fn a_wrong_file_is_told_in_a_line_that_says_what_it_can_be() {
        for (text, wanted) in [
            ("experiment = \"bulk\"\ncpus = ", "mine.toml: line 2: "),
            ("experiment = 3", "experiment: want a name, as in \"bulk\""),
            ("experiment = \"bulky\"", "there is no experiment \"bulky\": there are batching, bql, bulk"),
            ("experiment = \"bulk\"\ncpu = 3", "bulk has no parameter \"cpu\": it has bql_hold_ns, cpus"),
            ("experiment = \"bulk\"\ncpus = 65", "cpus: 65 cannot be: want a whole number from 1 to 64"),
            ("experiment = \"bulk\"\ncpus = -1", "cpus: -1 cannot be: want a whole number from 1 to 64"),
            ("experiment = \"bulk\"\ncpus = 1.5", "cpus: the type float cannot be: want a whole number"),
            (
                "experiment = \"bulk\"\n[[cpus]]\nvalue = 1",
                "cpus: the type array cannot be: want a whole number",
            ),
            ("experiment = \"bulk\"\n[cpus]\nsource = \"\"", "cpus: value is missing"),
            ("experiment = \"bulk\"\n[cpus]\nvalues = 3", "cpus has no \"values\": it can have value, kind"),
            ("experiment = \"bulk\"\n[cpus]\nnic = \"x\"", "cpus: key is missing"),
            ("experiment = \"bulk\"\n[cpus]\nnic = \"x\"\nkey = \"y\"", "cpus: there is no NIC \"x\""),
            (
                "experiment = \"bulk\"\ncpus = { nic = \"ixgbe\", key = \"tx.doorbell.nic_ps\", value = 1 }",
                "cpus: it has a value, and ixgbe's: leave one out",
            ),
            ("experiment = \"bulk\"\nmachine = \"x\"", "machine: want a list of parameters"),
            ("experiment = \"bulk\"\nmachine = [\"x\"]", "machine: bulk has no parameter \"x\""),
            ("experiment = \"bulk\"\npublished = 3", "published: want a table of bulk_dequeue"),
            ("experiment = \"bulk\"\n[published.x]", "published has no \"x\": it has bulk_dequeue"),
            (
                "experiment = \"pcie\"\n[published.pcie]\nxdp_drop_mpps = { before = \"x\" }",
                "published.pcie.xdp_drop_mpps.before: want a number",
            ),
            (
                "experiment = \"pcie\"\n[published.pcie]\nxdp_tx_readings_mpps = [1]",
                "published.pcie.xdp_tx_readings_mpps: want a list of 3",
            ),
            (
                "experiment = \"pcie\"\n[published.pcie]\ncompletion_bytes = inf",
                "published.pcie.completion_bytes: inf cannot be: want 0, or from 1e-6 to 1e9 in size",
            ),
            ("experiment = \"bql\"\n[published.x]", "published has no \"x\": it has "),
        ] {
            let fault = fault(text);
            assert!(fault.starts_with("mine.toml: ") && fault.contains(wanted), "{text}: {fault}");
            assert!(!fault.contains('\n'), "{fault:?}");
        }
    }

    proptest! {
        /// The parser reads a file that is cut off or has other text in it, or says in one line what is wrong.
        #[test]
        fn any_file_is_read_or_told_in_a_line(at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
            what in "(\\PC{0,9}|[0-9]{1,20}|nan|\\[\\]|\"\"|true|\n\\[a\\]\n)", which in any::<prop::sample::Index>()) {
            let whole = which.get(all()).scenario();
            let lines: Vec<&str> = whole.lines().collect();
            let (at, cut) = (at.index(lines.len()), cut.index(lines.len()) + 1);
            let other = lines[at].split_once('=').map_or(what.clone(), |(key, _)| format!("{key}= {what}"));
            let text: Vec<&str> = lines[..at].iter().copied().chain([other.as_str()]).chain(lines[at + 1..].iter().copied()).collect();
            for text in [text.join("\n"), lines[..cut].join("\n"), whole.chars().take(at * 7).collect()] {
                if let Err(error) = OwnNumbers::parse("mine.toml", &text) {
                    let error = error.to_string();
                    prop_assert!(error.starts_with("mine.toml: ") && !error.contains('\n'), "{error:?}");
                }
            }
        }
    }
}
