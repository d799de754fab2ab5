//! `wharf demo`: what the byte queue limit and batching do on this machine, in seconds and without a privilege.

use crate::args::{self, Cli, Command, DemoArgs};
use crate::output::{self, print, print_json, time};
use crate::report::Report;
use crate::send;
use crate::session::Outcome;
use crate::signals::Signals;
use crate::{Registries, usage};
use anyhow::anyhow;
use clap::FromArgMatches;
use serde::Serialize;

/// Two senders that keep a slow wire busy, and a sparse flow beside them.
const BUSY: &str =
    "send --size 1514 --senders 2 --qdisc prio --priority-rate 1kpps --to wire:rate=100mbit --bql";
/// A sender of short packets.
const SHORT: &str = "send --size 60 --seconds 0.1 --to null --batch";
/// Runs of each kind: those to be compared take turns, so that other work on this machine meets both.
const BUSY_RUNS: usize = 2;
const SHORT_RUNS: usize = 7;
/// Seconds of a busy run, and of those in its place where no packet of the sparse flow arrived.
const BUSY_SECONDS: [u32; 4] = [1, 2, 4, 8];
/// True if the compiler was to optimise this build in full.
const IS_OPTIMISED: bool = matches!(env!("WHARF_OPT_LEVEL").as_bytes(), b"3");
const UNOPTIMISED: &str = "\nThis is an unoptimised build: for figures, cargo run --release -- demo\n";
/// Cells of the longest bar.
const BAR: usize = 36;

/// The figures of a demonstration.
#[derive(Debug, Serialize)]
struct DemoReport {
    /// With the byte limit off and on.
    priority_delay: Pair<Delay>,
    /// With batching off and on.
    batching: Pair<Rate>,
}

#[derive(Debug, Serialize)]
struct Pair<T> {
    off: T,
    on: T,
}

/// The delay of the sparse flow, and how much of the wire was used.
#[derive(Debug, Serialize)]
struct Delay {
    p50_ns: u64,
    p99_ns: u64,
    limit_bytes: u64,
    mbps: f64,
}

#[derive(Debug, Serialize)]
struct Rate {
    mpps: f64,
    packets_per_doorbell: f64,
}

/// Runs it, and prints the picture, or the figures as JSON.
pub(crate) fn demo(args: &DemoArgs, registries: &Registries) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    if !args.json {
        output::note("six seconds: with and without the byte limit, then batching");
    }
    let run = |command: &str, switch: &str| measure(&format!("{command} {switch}"), registries, &signals);
    let busy =
        in_turn(BUSY_RUNS, |switch| delay(|seconds| run(BUSY, &format!("{switch} --seconds {seconds}"))))?;
    let short = in_turn(SHORT_RUNS, |switch| Ok(rate(&run(SHORT, switch)?)))?;
    let report = DemoReport {
        priority_delay: Pair { off: Delay::of(&busy.off), on: Delay::of(&busy.on) },
        batching: Pair { off: Rate::of(&short.off), on: Rate::of(&short.on) },
    };
    if args.json { print_json(&report) } else { print(&picture(&report)) }
}

/// Measures `count` times off and on, in turn.
fn in_turn<T>(count: usize, measure: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<Pair<Vec<T>>> {
    let mut both = Pair { off: Vec::new(), on: Vec::new() };
    for _ in 0..count {
        both.off.push(measure("off")?);
        both.on.push(measure("on")?);
    }
    Ok(both)
}

impl Delay {
    fn of(runs: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(runs.iter().map(field));
        Self {
            p50_ns: of(|run| run.p50_ns as f64) as u64,
            p99_ns: of(|run| run.p99_ns as f64) as u64,
            limit_bytes: of(|run| run.limit_bytes as f64) as u64,
            mbps: of(|run| run.mbps),
        }
    }
}

impl Rate {
    fn of(runs: &[Self]) -> Self {
        let packets_per_doorbell = median(runs.iter().map(|run| run.packets_per_doorbell));
        Self { mpps: median(runs.iter().map(|run| run.mpps)), packets_per_doorbell }
    }
}

/// Returns the middle one of an odd number, else the mean of the two in the middle.
fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    let at = |at: usize| all.get(at).copied().unwrap_or_default();
    f64::midpoint(at(all.len().saturating_sub(1) / 2), at(all.len() / 2))
}

/// Runs a command line of `wharf send`, without printing. Returns its report.
fn measure(command: &str, registries: &Registries, signals: &Signals) -> anyhow::Result<Report> {
    let words = ["wharf"].into_iter().chain(command.split(' '));
    let read = args::command(registries).try_get_matches_from(words);
    let Ok(Cli { command: Command::Send(args), .. }) = read.and_then(|read| Cli::from_arg_matches(&read))
    else {
        return Err(usage(format!("{command}: this is a bug in wharf")));
    };
    let Outcome { report, faults, .. } = send::run_once(&args, &registries.devices, signals)?;
    match (signals.asked(), faults.first()) {
        (true, _) => Err(anyhow!("interrupted")),
        (false, Some(fault)) => Err(anyhow!("{fault}")),
        (false, None) => Ok(report),
    }
}

/// Returns the delay of the packets of the first band, of the first run with any: `run` takes its seconds.
fn delay(run: impl Fn(u32) -> anyhow::Result<Report>) -> anyhow::Result<Delay> {
    for seconds in BUSY_SECONDS {
        let report = run(seconds)?;
        if let Some(first) = report.latency_by_dscp.iter().find(|class| class.band == 0) {
            let (limit_bytes, mbps) = (report.bql.limit_bytes, (report.gbps * 1e5).round() / 100.0);
            let latency = &first.latency_ns;
            return Ok(Delay { p50_ns: latency.p50, p99_ns: latency.p99, limit_bytes, mbps });
        }
    }
    let [.., longest] = BUSY_SECONDS;
    Err(anyhow!("other work had the processors: no packet of the sparse flow arrived in {longest} s"))
}

fn rate(report: &Report) -> Rate {
    Rate { mpps: report.mpps, packets_per_doorbell: report.packets_per_doorbell }
}

/// Draws the two comparisons, no line longer than 80 cells.
fn picture(report: &DemoReport) -> String {
    let DemoReport { priority_delay: delays, batching } = report;
    let worst = delays.off.p99_ns.max(delays.on.p99_ns);
    let delay = |name: &str, one: &Delay| {
        let bar = bar(one.p99_ns as f64, worst as f64);
        format!("  {name:<15} {bar} {} (half: {})\n", time(one.p99_ns), time(one.p50_ns))
    };
    let best = batching.off.mpps.max(batching.on.mpps);
    let rate = |name: &str, one: &Rate| {
        let bar = bar(one.mpps, best);
        format!("  {name:<15} {bar} {:.1} Mpps, {:.0} a doorbell\n", one.mpps, one.packets_per_doorbell)
    };
    [
        "Two senders keep a wire of 100 Mbit/s busy, which is modelled in this process.\nThe delay of a high-priority packet beside them, of 99 in 100 at most:\n\n",
        &delay("byte limit off", &delays.off),
        &delay("byte limit on", &delays.on),
        &format!(
            "\n  {} times less. Sent: {:.1} and {:.1} Mbit/s; limit learnt: {} bytes.\n",
            ratio(delays.off.p99_ns as f64, delays.on.p99_ns as f64),
            delays.off.mbps,
            delays.on.mbps,
            output::grouped(delays.on.limit_bytes)
        ),
        "\nOne sender of 60-byte packets into a device that costs nothing:\n\n",
        &rate("batching off", &batching.off),
        &rate("batching on", &batching.on),
        &format!("\n  {} times as fast.\n", ratio(batching.on.mpps, batching.off.mpps)),
        if IS_OPTIMISED { "" } else { UNOPTIMISED },
        "\nNext:\n",
        "  wharf receive --from udp:127.0.0.1:9000 --seconds 5 & sleep 1\n",
        "  wharf send --imix --rate 100mbit --seconds 3 --to udp:127.0.0.1:9000\n",
        "  wharf devices      the kinds of devices, and this machine's interfaces\n",
    ]
    .concat()
}

fn bar(value: f64, most: f64) -> String {
    let cells = if most > 0.0 { (value / most * BAR as f64).round() as usize } else { 0 };
    format!("{:<BAR$}", "█".repeat(cells.clamp(1, BAR)))
}

fn ratio(more: f64, less: f64) -> String {
    let ratio = if less > 0.0 { more / less } else { 0.0 };
    if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_take_turns_and_the_middle_one_counts() {
        let run = std::cell::Cell::new(0);
        let all = in_turn(2, |switch| Ok((run.replace(run.get() + 1), switch.to_string()))).unwrap();
        let of = |switch: &str, runs: [i32; 2]| runs.map(|run| (run, switch.to_string())).to_vec();
        assert_eq!((all.off, all.on), (of("off", [0, 2]), of("on", [1, 3])));
        let of = |all: &[f64]| median(all.iter().copied());
        assert_eq!([of(&[]), of(&[3.0]), of(&[1.0, 9.0, 2.0]), of(&[4.0, 1.0])], [0.0, 3.0, 2.0, 2.5]);
    }

    #[test]
    fn a_run_without_a_packet_of_the_sparse_flow_is_repeated_for_longer() {
        let asked = std::cell::RefCell::new(Vec::new());
        let run = |seconds, arrives_in| {
            asked.borrow_mut().push(seconds);
            let mut report = Report::default();
            report.latency_by_dscp.extend((seconds == arrives_in).then(Default::default));
            Ok(report)
        };
        delay(|seconds| run(seconds, 4)).unwrap();
        assert_eq!(*asked.borrow(), [1, 2, 4]);
        let error = delay(|seconds| run(seconds, 0)).unwrap_err().to_string();
        assert!(error.ends_with("no packet of the sparse flow arrived in 8 s"), "{error}");
    }

    #[test]
    fn picture_fits_a_terminal_of_80_cells_and_draws_in_proportion() {
        let delay = |p50_ns| Delay { p50_ns, p99_ns: 4 * p50_ns, limit_bytes: 20_000, mbps: 98.5 };
        let rate = |mpps| Rate { mpps, packets_per_doorbell: 60.0 };
        let report = DemoReport {
            priority_delay: Pair { off: delay(226_500_000), on: delay(1_000_000) },
            batching: Pair { off: rate(9.0), on: rate(28.8) },
        };
        let picture = picture(&report);
        assert!(picture.lines().all(|line| line.chars().count() <= 80), "{picture}");
        assert!(picture.contains("226 times less") && picture.contains("3.2 times as fast"), "{picture}");
        let cells = |word: &str| {
            let line = picture.lines().find(|line| line.contains(word)).unwrap();
            line.chars().filter(|&cell| cell == '█').count()
        };
        let words = ["byte limit off", "byte limit on", "batching off", "batching on"];
        assert_eq!(words.map(cells), [36, 1, 11, 36]);
    }
}
