//! `wharf bench`.

mod device;
mod path;
mod stages;
mod table;

use crate::args::{BenchArgs, BenchCommand, DeviceArgs, OwnerChoice, PathArgs};
use path::{Case, Kind};
use serde::Serialize;
use serde_json::json;
use stages::Cycles;
use wharf_cli::output::{print, print_json};
use wharf_cli::progress::Progress;
use wharf_cli::signals::Signals;
use wharf_cli::usage;
use wharf_devices::host::processors;

/// One measurement. The keys are a promise: they are added to, never renamed.
#[derive(Debug, Serialize)]
struct Row {
    cores: usize,
    senders: u16,
    burst: usize,
    mpps: f64,
    /// `lane`: senders run the queue; `dedicated`: a core does; `direct`: one sender that owns its path.
    kind: Kind,
    packets_per_doorbell: f64,
    /// Per packet and stage; null where stages run on several cores at once.
    cycles: Option<Cycles>,
}

/// Runs a benchmark.
pub(crate) fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.what {
        BenchCommand::Path(args) => bench_path(args),
        BenchCommand::Device(args) => bench_device(args),
    }
}

fn bench_device(args: &DeviceArgs) -> anyhow::Result<()> {
    let through = device::measure(args)?;
    if args.json { print_json(&through) } else { print(&through.to_string()) }
}

fn bench_path(args: &PathArgs) -> anyhow::Result<()> {
    let cases = cases(args)?;
    let (signals, progress) = (Signals::listen()?, Progress::begin());
    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        progress.say(|| format!("{} of {}: {case}", at + 1, cases.len()));
        if signals.asked() {
            break;
        }
        rows.push(row(case)?);
    }
    drop(progress);
    if args.json { print_json(&json!({ "rows": rows })) } else { print(&table::table_of(&rows)) }
}

/// Measures the rate and, in a run of its own, the stages: reading a counter then disturbs no rate.
fn row(case: &Case) -> anyhow::Result<Row> {
    let (mpps, packets_per_doorbell) = path::measure(case)?;
    let cycles = stages::measure(case)?;
    let Case { kind, senders, burst, .. } = *case;
    Ok(Row { cores: case.cpus.len(), senders, burst, mpps, kind, packets_per_doorbell, cycles })
}

fn cases(args: &PathArgs) -> anyhow::Result<Vec<Case>> {
    let there = processors();
    let cores = match args.cores[..] {
        [] => vec![1, 2].into_iter().filter(|&cores| cores <= there.len()).collect(),
        _ => args.cores.clone(),
    };
    if let Some(cores) = cores.iter().find(|&&cores| cores > there.len()) {
        return Err(usage(format!("--cores {cores}: this process may use 1 to {} processors", there.len())));
    }
    let cases = cores.into_iter().flat_map(|cores| cases_on(args, &there[..cores]));
    Ok(cases.collect())
}

/// Returns the cases on processors `cpus`.
fn cases_on(args: &PathArgs, cpus: &[usize]) -> Vec<Case> {
    let is_inline = cpus.len() == 1 || args.owner == OwnerChoice::Inline;
    let kind = if is_inline { Kind::Lane } else { Kind::Dedicated };
    let case = |kind, senders, burst| Case { kind, cpus: cpus.into(), senders, burst, time: args.seconds };
    let bursts = |kind, senders| args.bursts.iter().map(move |&burst| case(kind, senders, burst));
    let mut cases: Vec<Case> = args.senders.iter().flat_map(|&senders| bursts(kind, senders)).collect();
    if args.direct && cpus.len() == 1 {
        cases.extend(bursts(Kind::Direct, 1));
    }
    cases
}
