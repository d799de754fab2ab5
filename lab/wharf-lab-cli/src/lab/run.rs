//! `wharf lab run`: one experiment, or all that run in a world.

use super::effects::effects;
use super::{pages, scores, table_of};
use crate::args::LabRunArgs;
use serde_json::json;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wharf_cli::output::{print, print_json};
use wharf_cli::progress::Progress;
use wharf_cli::signals::Signals;
use wharf_cli::usage;
use wharf_lab::experiment::{self, LabError, OwnNumbers, Report, Request, World, sweep};
use wharf_lab::report::{REPORT, Section};

/// The name that selects every experiment.
const ALL: &str = "all";

/// Runs the experiment of that name, or that for which there are `own` numbers.
pub(super) fn run(args: &LabRunArgs, own: Option<OwnNumbers>) -> anyhow::Result<()> {
    let (signals, began) = (Signals::listen()?, Instant::now());
    let requests = requests(args, own)?;
    // Before the runs: their results must not be lost for want of a place.
    args.report.iter().try_for_each(|folder| pages::make(folder))?;
    let sections = carry_out(&requests, &signals)?;
    if args.time {
        say_time(&sections, began.elapsed());
    }
    let written = args.report.as_ref().map_or(Ok(()), |folder| {
        let command = request(args, &args.name, args.world).command();
        pages::write(folder, &sections, &format!("{command} --report DIR"))
    });
    // Figures are shown even if the disk is full.
    show(&sections, args)?;
    written?;
    if let (Some(folder), false) = (&args.report, args.json) {
        print(&format!("\nwritten: {}", folder.join(REPORT).display()))?;
    }
    Ok(())
}

/// Prints tables, or one JSON object.
fn show(sections: &[Section], args: &LabRunArgs) -> anyhow::Result<()> {
    match (sections, args.json) {
        ([section], true) if args.name != ALL => print_json(&section.report),
        (_, true) => {
            let experiments: Vec<&Report> = sections.iter().map(|one| &one.report).collect();
            print_json(&json!({ "experiments": experiments }))
        }
        _ if args.effects => print(&effects(sections)),
        // The page has the tables.
        _ if args.report.is_some() => print(&scores(sections)),
        _ => {
            let tables: Vec<String> = sections.iter().map(|section| table_of(&section.report)).collect();
            print(&tables.join("\n\n\n"))
        }
    }
}

fn request(args: &LabRunArgs, name: &str, world: Option<World>) -> Request {
    Request {
        name: name.into(),
        own: None,
        set: args.set.clone(),
        seed: args.seed,
        seeds: args.seeds,
        world,
        threads: args.threads.clone(),
        duration_ns: args.seconds.map(|seconds| seconds.as_nanos() as u64),
        device: args.to.clone(),
    }
}

/// Returns the runs.
fn requests(args: &LabRunArgs, own: Option<OwnNumbers>) -> anyhow::Result<Vec<Request>> {
    let world = args.world;
    if args.name != ALL {
        return Ok(vec![Request { own, ..request(args, &args.name, world) }]);
    }
    if !args.set.is_empty() {
        return Err(usage("--set changes a parameter of one experiment: run that one, not all"));
    }
    let world = world.unwrap_or(World::Model);
    let there = experiment::all().iter().filter(|experiment| experiment.worlds().contains(&world));
    let one = |experiment: &experiment::Experiment| {
        let mut request = request(args, experiment.name, Some(world));
        if !experiment.has_device {
            request.device = None;
        }
        request
    };
    Ok(there.map(one).collect())
}

/// Runs them with each of their seeds; those of world model in parallel, since each has its own time.
fn carry_out(requests: &[Request], signals: &Signals) -> anyhow::Result<Vec<Section>> {
    let point = |(number, request): (usize, &Request)| sweep::Point { number, request: request.clone() };
    let seeds: Vec<Request> = requests.iter().flat_map(Request::each_seed).collect();
    let points: Vec<sweep::Point> = seeds.iter().enumerate().map(point).collect();
    let is_host = requests.iter().any(|request| {
        let world = request.world.or_else(|| Some(request.experiment().ok()?.worlds()[0]));
        world == Some(World::Host) || !request.threads.is_empty()
    });
    let jobs = if is_host { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let progress = Mutex::new(Progress::begin());
    let mut results: Vec<Option<Result<Report, LabError>>> = points.iter().map(|_| None).collect();
    let say = |what: &str| {
        // No run waits for the line of another.
        if let Ok(progress) = progress.try_lock() {
            progress.say(|| what.to_string());
        }
        !signals.asked()
    };
    sweep::run_each(&points, jobs, &say, &mut |point, result| {
        // The first error ends the runs, and so does a signal.
        let goes_on = result.as_ref().is_ok_and(|report| !report.interrupted);
        results[point.number] = Some(result);
        goes_on
    });
    drop(progress);
    let mut sections = Vec::new();
    let mut results = results.into_iter();
    for request in requests {
        let reports: Result<Vec<Report>, LabError> =
            results.by_ref().take(request.each_seed().len()).flatten().collect();
        let reports = reports.map_err(|error| if error.is_usage() { usage(error) } else { error.into() })?;
        if reports.is_empty() {
            continue;
        }
        let report = Report::median_of(reports);
        let what = request.experiment().map_or("", |experiment| experiment.what);
        let command = Request { world: Some(report.world), ..request.clone() }.command();
        sections.push(Section { report, what, command });
    }
    Ok(sections)
}

fn say_time(sections: &[Section], took: Duration) {
    let packets: u64 = sections.iter().map(|section| section.report.packets).sum();
    let seconds = took.as_secs_f64();
    let rate = packets as f64 / seconds / 1e6;
    // A closed standard error is no failure.
    let _ = writeln!(
        std::io::stderr(),
        "{packets} packets simulated in {seconds:.2} s: {rate:.2} million per second"
    );
}
