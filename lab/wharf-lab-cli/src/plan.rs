//! `wharf plan`: the packet rate that a server can carry, and the part that limits it.

mod from;
mod table;

use crate::args::PlanArgs;
use from::{Asked, From};
use serde::Serialize;
use std::io::{ErrorKind, Read};
use wharf_cli::output::{print, print_json};
use wharf_cli::{files, usage};
use wharf_plan::nics::{Choice, Description, FILE_BYTES_MAX, Mark};
use wharf_plan::pcie::Link;
use wharf_plan::plan::{Load, Question, Report, Sweep, chart, page, plan, sweep};

/// The default frame size: the smallest, where every cost per packet shows.
const SIZE: u32 = 64;
const CORES: u32 = 12;
/// The default NIC.
const NIC: &str = "cx5";

/// The report, and the interface that was read.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Null without --from.
    from: Option<&'a From>,
}

/// The name of the page.
const PAGE: &str = "plan.html";

/// Prints a plan.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let (description, question, from) = asked(args)?;
    let plan = plan(&description, &question).map_err(usage)?;
    let rows = match (args.sweep, &args.report) {
        (Some(sizes), _) => sweep(&description, &question, &sizes).map_err(usage)?,
        (None, Some(_)) => sweep(&description, &question, &Sweep::DEFAULT).map_err(usage)?,
        (None, None) => Vec::new(),
    };
    let shown = if args.sweep.is_some() { &rows[..] } else { &[] };
    let interface = args.from.as_deref().unwrap_or("IF");
    let mut table = table::table_of(&plan, &question, shown, interface);
    if let Some(from) = &from {
        table = format!("{}\n\n{table}", from.words());
    }
    if let Some(folder) = &args.report {
        let svg = chart::svg(&plan, &question, &rows)?;
        let page = page(&plan, &question, &svg, (interface, &files::command_line("DIR"), &table));
        files::write_report(folder, &[("plan.svg", &svg), (PAGE, &page)])?;
    }
    if args.json {
        let report = &Report::new(&plan, &question, shown);
        return print_json(&Printed { report, from: from.as_ref() });
    }
    print(&table)?;
    args.report.iter().try_for_each(|folder| print(&format!("\nwritten: {}", folder.join(PAGE).display())))
}

/// Returns the description, the question, and the interface that they come from, if any.
fn asked(args: &PlanArgs) -> anyhow::Result<(Description, Question, Option<From>)> {
    let Some(name) = &args.from else {
        let description = description(args.nic.as_deref().unwrap_or(NIC))?;
        let question = question(args, &description, args.link, Choice::default(), None);
        check_link(args, question.link)?;
        return Ok((description, question, None));
    };
    let own = args.nic.as_deref().map(description).transpose()?;
    let Asked { from, description, link, choice } = from::ask(args, name, own)?;
    let question = question(args, &description, link, choice, from.cores());
    check_link(args, link)?;
    Ok((description, question, Some(from)))
}

/// Refuses settings of the description's link if another link takes its place.
fn check_link(args: &PlanArgs, link: Option<Link>) -> anyhow::Result<()> {
    match args.set.iter().find(|(key, _)| key.starts_with("link.")) {
        Some((key, _)) if link.is_some() => {
            Err(usage(format!("--set {key}: the link is not the description's; say it with --link")))
        }
        _ => Ok(()),
    }
}

/// Returns the built-in description of this name, or that in a file.
fn description(name: &str) -> anyhow::Result<Description> {
    if let Some(built_in) = Description::built_in(name) {
        return Ok(built_in?);
    }
    let text = file_text(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let names: Vec<&str> = Description::names().collect();
            usage(format!("--nic {name}: no such file, and none of {}", names.join(", ")))
        }
        ErrorKind::InvalidData => usage(format!("--nic {name}: no text: is this a description?")),
        _ => usage(format!("--nic {name}: cannot be read: {error}")),
    })?;
    Description::parse(name, &text).map_err(usage)
}

/// Reads a file, or slightly more than the allowed size of a larger one.
fn file_text(name: &str) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(name)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    // A character cut in two is an error too; the file is too large anyway.
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// Returns the question; the command line takes precedence over `link`, `choice` and `cores`, which were read.
fn question(
    args: &PlanArgs, description: &Description, link: Option<Link>, choice: Choice, cores: Option<u32>,
) -> Question {
    let defaults = description.defaults();
    let load = match (&args.size, args.imix) {
        (Some(load), _) => load.clone(),
        (None, true) => Load::imix(),
        (None, false) => Load::one_size(defaults.size.unwrap_or(SIZE)),
    };
    let given =
        |(key, value): &(String, String)| (key.clone(), value.clone(), Mark::Given, "--set".to_string());
    let mut choice = choice;
    choice.features.extend(args.feature.iter().cloned());
    choice.sets.extend(args.set.iter().map(given));
    Question {
        load,
        cores: args.cores.or(cores).or(defaults.cores).unwrap_or(CORES),
        direction: args.direction.into(),
        target: args.target,
        link,
        choice,
    }
}
