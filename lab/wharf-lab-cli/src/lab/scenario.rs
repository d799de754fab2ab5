//! Files of one's own: `wharf lab run FILE`, `wharf lab compare FILE`, `wharf lab calibrate`.

use crate::args::{LabCalibrateArgs, LabCompareArgs, LabRunArgs};
use anyhow::Context;
use comfy_table::CellAlignment;
use serde_json::json;
use std::path::Path;
use wharf_cli::fold::folded;
use wharf_cli::output::{print, print_json, table, text};
use wharf_cli::progress::Progress;
use wharf_cli::signals::Signals;
use wharf_cli::{files, usage};
use wharf_lab::experiment::{LabError, OwnNumbers, Row, World};
use wharf_lab::scenario::{Comparison, Folder, Scenario, calibrate, measure, predict, text_of};

/// True if the argument of `lab run` names a file: experiments have neither a dot nor a slash.
pub(super) fn is_file(name: &str) -> bool {
    name.contains('.') || name.contains('/')
}

/// Runs an experiment with the numbers of a file, or the file's scenario.
pub(super) fn run_file(args: &LabRunArgs) -> anyhow::Result<()> {
    let contents = text_of(Path::new(&args.name)).map_err(usage)?;
    if OwnNumbers::are_in(&contents) {
        return super::run::run(args, Some(OwnNumbers::parse(&args.name, &contents).map_err(usage)?));
    }
    run(args, &contents)
}

/// Parses a scenario. Its machine and its captures are looked for beside it.
fn parse(file: &str, contents: &str, machine: Option<&str>) -> anyhow::Result<Scenario> {
    let folder = Folder(Path::new(file).parent().unwrap_or(Path::new(".")).into());
    let scenario = Scenario::parse(file, contents, &folder).map_err(usage)?;
    match machine {
        None => Ok(scenario),
        Some(name) => scenario.on_machine(name, &text_of(Path::new(name)).map_err(usage)?).map_err(usage),
    }
}

/// Calls `run` with a question whether to go on, and tells the progress.
fn watched<T>(
    what: &str, run: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, LabError>,
) -> anyhow::Result<Option<T>> {
    let (signals, progress) = (Signals::listen()?, Progress::begin());
    let done = run(&mut || {
        progress.say(|| what.to_string());
        !signals.asked()
    });
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_interruption() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Runs a scenario in the world asked for; virtual time by default.
fn run(args: &LabRunArgs, contents: &str) -> anyhow::Result<()> {
    let is_of_experiments =
        !args.set.is_empty() || !args.threads.is_empty() || args.report.is_some() || args.effects;
    if is_of_experiments || args.seeds > 1 {
        return Err(usage(
            "--set, --threads, --seeds, --report and --effects are of experiments: a scenario has its numbers in its file, and that of an experiment begins with \
             experiment = \"NAME\"",
        ));
    }
    let world = args.world.unwrap_or(World::Model);
    if args.seconds.is_some() && world == World::Model {
        return Err(usage("--seconds is for --world host: virtual time is in the scenario's file"));
    }
    let scenario = parse(&args.name, contents, None)?;
    let time = args.seconds.unwrap_or(SECOND);
    let rows = watched(&args.name, |goes_on| match world {
        World::Model => predict(&scenario, args.seed, goes_on),
        World::Host => measure(&scenario, args.seed, time, goes_on),
    })?;
    let Some(rows) = rows else { return print("Ended by a signal.") };
    if args.json {
        return print_json(
            &json!({ "scenario": args.name, "world": world, "seed": args.seed, "rows": rows }),
        );
    }
    print(&format!("{}, world {world}, seed {}\n\n{}", args.name, args.seed, text(&figures(&rows))))
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn figures(rows: &[Row]) -> comfy_table::Table {
    let has_published = rows.iter().any(|row| row.published.is_some());
    let heads = ["", "figure", "value", "unit", "published", "note"];
    let columns = if has_published { heads.len() } else { 4 };
    let mut lines = table(&heads[..columns]);
    left(&mut lines, &[0, 1, 3, 5]);
    for row in rows {
        let cells = [
            row.label.clone(),
            row.metric.into(),
            format!("{:.3}", row.value),
            row.unit.into(),
            row.published.map_or(String::new(), |figure| figure.to_string()),
            row.note.clone().unwrap_or_default(),
        ];
        lines.add_row(cells.into_iter().take(columns));
    }
    lines
}

fn left(lines: &mut comfy_table::Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = lines.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
}

/// Runs a scenario in both worlds, and prints predicted, measured and error.
pub(super) fn compare(args: &LabCompareArgs) -> anyhow::Result<()> {
    let contents = text_of(Path::new(&args.file)).map_err(usage)?;
    if OwnNumbers::are_in(&contents) {
        let file = &args.file;
        return Err(usage(format!(
            "{file} names an experiment: compare takes scenarios with senders; wharf lab run {file} runs it"
        )));
    }
    let scenario = parse(&args.file, &contents, args.machine.as_deref())?;
    let compared = watched(&args.file, |goes_on| {
        Comparison::new(&scenario, args.seed, args.rounds, args.seconds.unwrap_or(SECOND), goes_on)
    })?;
    let Some(compared) = compared else { return print("Ended by a signal.") };
    if args.json {
        return print_json(&compared);
    }
    let mut lines = table(&["", "figure", "predicted", "measured", "least..most", "error", "unit"]);
    left(&mut lines, &[0, 1, 6]);
    for row in &compared.rows {
        let [least, most] = row.spread;
        lines.add_row([
            row.label.clone(),
            row.metric.into(),
            format!("{:.3}", row.predicted),
            format!("{:.3}", row.measured),
            format!("{least:.3}..{most:.3}"),
            row.error_percent.map_or("-".into(), |error| format!("{error:+.1} %")),
            row.unit.into(),
        ]);
    }
    let Comparison { rounds, device, seed, .. } = &compared;
    let title = format!("{}, seed {seed}, measured over {device}: medians of {rounds} rounds", args.file);
    print(&format!("{title}\n\n{}", text(&lines)))
}

/// Measures this machine, and prints or writes its file.
pub(super) fn calibrate(args: &LabCalibrateArgs) -> anyhow::Result<()> {
    let wire = args.to != "null";
    let measured = watched("calibrating", |goes_on| calibrate::calibrate(wire, goes_on))?;
    let Some(calibration) = measured else { return print("Ended by a signal.") };
    let mut head = vec![
        "Costs of a machine, in nanoseconds, by `wharf lab calibrate`. The sum of a packet's steps is measured, and a".to_string(),
        "step's share of it assumed; what follows is measured and modelled, in Mpps:".to_string(),
    ];
    let point =
        |(name, measured, modelled): &(String, f64, f64)| format!("  {name}: {measured:.2}, {modelled:.2}");
    head.extend(calibration.points.iter().map(point));
    head.push(match calibration.limit_bytes {
        Some([measured, modelled]) => {
            format!("  byte limit of a wire of 100 Mbit/s, in bytes: {measured}, {modelled}")
        }
        None => "What is of a wire (wire_driver_ns, wire_alone_ns, late_ns) is assumed.".into(),
    });
    let file = calibration.machine.to_toml(&head.join("\n"));
    let Some(out) = &args.out else { return print(file.trim_end()) };
    files::write_page(out, file.as_bytes()).with_context(|| format!("cannot write {}", out.display()))?;
    print(&folded(&format!("written: {}; name it in a scenario: machine = \"{0}\"", out.display())))
}
