//! `wharf lab list`: the experiments, and the parameters of one.

use crate::args::LabListArgs;
use comfy_table::CellAlignment;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use wharf_cli::fold::wrap_last;
use wharf_cli::output::{print, print_json, table, text};
use wharf_cli::usage;
use wharf_lab::experiment::{self, Experiment, LabError, Parameter, Parameters, World};

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    what: &'static str,
    worlds: Vec<World>,
    /// The parameters, by world and by name.
    parameters: BTreeMap<String, BTreeMap<String, Shown>>,
}

/// A parameter with all its properties.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    parameter: Parameter,
    allowed: String,
}

pub(super) fn list(args: &LabListArgs) -> anyhow::Result<()> {
    let experiments = match &args.name {
        Some(name) => vec![experiment::named(name).map_err(usage)?],
        None => experiment::all().iter().collect(),
    };
    if let ([one], true) = (&experiments[..], args.scenario) {
        return print(one.scenario().trim_end());
    }
    if args.json {
        let entries = experiments.iter().map(|one| entry(one)).collect::<Result<Vec<_>, _>>()?;
        return print_json(&json!({ "experiments": entries }));
    }
    let listed = listed(&experiments);
    match experiments[..] {
        [one] if args.name.is_some() => print(&format!("{listed}\n\n{}", parameters(one)?)),
        _ => print(&format!("{listed}\n\nParameters of one: wharf lab list NAME")),
    }
}

fn entry(experiment: &'static Experiment) -> Result<Entry, LabError> {
    let shown = |(key, parameter): (&str, &Parameter)| {
        let allowed = parameter.allowed.to_string();
        (key.to_string(), Shown { parameter: parameter.clone(), allowed })
    };
    let of = |&world: &World| {
        let parameters = experiment::parameters_of(experiment, world)?;
        Ok((world.to_string(), parameters.iter().map(shown).collect()))
    };
    let parameters = experiment.worlds().iter().map(of).collect::<Result<_, LabError>>()?;
    let (name, what, worlds) = (experiment.name, experiment.what, experiment.worlds());
    Ok(Entry { name, what, worlds, parameters })
}

fn listed(experiments: &[&'static Experiment]) -> String {
    let mut lines = left_aligned(&["experiment", "worlds", "what it shows"]);
    experiments.iter().for_each(|experiment| {
        let worlds = experiment.worlds().iter().map(World::to_string).collect::<Vec<_>>().join(", ");
        lines.add_row([experiment.name, &worlds, experiment.what]);
    });
    wrap_last(&mut lines);
    text(&lines)
}

fn left_aligned(heads: &[&str]) -> comfy_table::Table {
    let mut lines = table(heads);
    lines.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Left));
    lines
}

/// Returns the parameters that `--set` can change, a table for each world.
fn parameters(experiment: &Experiment) -> Result<String, LabError> {
    let of = |&world: &World| {
        let parameters = experiment::parameters_of(experiment, world)?;
        let title =
            format!("Parameters of {} in world {world}, to be changed by --set KEY=VALUE:", experiment.name);
        Ok(format!("{title}\n\n{}", parameters_table(&parameters)))
    };
    Ok(experiment.worlds().iter().map(of).collect::<Result<Vec<_>, LabError>>()?.join("\n\n"))
}

fn parameters_table(parameters: &Parameters) -> String {
    let mut lines = left_aligned(&["parameter", "default", "can be", "what it is, or where it is from"]);
    for (key, Parameter { value, allowed, source, .. }) in parameters.iter() {
        lines.add_row([key, &value.to_string(), &allowed.to_string(), source]);
    }
    wrap_last(&mut lines);
    text(&lines)
}

/// Returns the parameters that `--set` takes, for help on running an experiment that `words` name.
pub(crate) fn help_of_experiment(words: &[String]) -> Option<String> {
    let [command, subcommand, rest @ ..] = words else { return None };
    let runs = command == "lab" && (subcommand == "run" || subcommand == "sweep");
    let named = rest.iter().filter(|_| runs).find_map(|word| experiment::named(word).ok())?;
    parameters(named).ok()
}
