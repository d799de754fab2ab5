//! Disturbances under load: 8 senders, threads and tasks, go on within a second of the end of what disturbs their device, or each has
//! its error within its deadline. The sums add up, and no frame stays out. Wants root, `ip`, `tc`, `ethtool` and `nsenter`.
//!
//! One run of each kind by default, as far as 50 s go. `WHARF_RUNS=200` makes it 200, over the devices of each
//! kind in turn. The seed in a fault's line, as `WHARF_SEED`, repeats a run, with its device and kind as `WHARF_ONLY=xdp/made-again`.
//!
//! Reading order: `kind.rs` (what a disturbance is), the files of kinds, `bed.rs` (a path, its network and its far end), `load.rs`
//! (the senders), `run.rs` (one run), this file (all of them, and the table).

mod bed;
#[path = "../common/mod.rs"]
mod common;
mod far;
mod interface;
mod kind;
mod load;
mod network;
mod peer;
mod process;
mod queue;
mod run;
mod table;

use kind::{Device, Kind};
use run::Outcome;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time for the kinds of a run without `WHARF_RUNS`, on a machine that is too busy for all of them.
const BUDGET: Duration = Duration::from_secs(50);
/// Runs of a disturbance that are too slow before that is a fault.
const TRIES: u32 = 5;
const HANG: &str = "a wait that does not end";
/// Time after which a run hangs.
const HANGS: Duration = Duration::from_secs(40);

fn kinds() -> Vec<&'static Kind> {
    let all = [interface::KINDS, network::KINDS, peer::KINDS, queue::KINDS, process::KINDS];
    all.into_iter().flatten().collect()
}

/// Returns the disturbance and the device of each run: all kinds in turn, each with its devices in turn.
fn plan(seed: u64, runs: Option<usize>) -> Vec<(&'static Kind, Device)> {
    let only = std::env::var("WHARF_ONLY").unwrap_or_default();
    let (device, name) = only.split_once('/').unwrap_or(("", &only));
    let is_wanted = |at: Device| at.name().contains(device);
    let is_name = kinds().iter().any(|kind| kind.name == name);
    let is_named = |kind: &Kind| if is_name { kind.name == name } else { kind.name.contains(name) };
    let kinds: Vec<_> = kinds()
        .into_iter()
        .filter(|kind| is_named(kind) && kind.on.iter().any(|at| is_wanted(*at)))
        .collect();
    assert!(!kinds.is_empty(), "WHARF_ONLY={only}: there is none");
    let picked = |number: usize| {
        let (round, at) = (number / kinds.len(), (seed as usize).wrapping_add(number) % kinds.len());
        let devices: Vec<_> = kinds[at].on.iter().copied().filter(|at| is_wanted(*at)).collect();
        (kinds[at], devices[(seed as usize).wrapping_add(at + round) % devices.len()])
    };
    (0..runs.unwrap_or(kinds.len())).map(picked).collect()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

/// Runs in a thread that has a network of its own.
fn run_apart(kind: &'static Kind, device: Device, seed: u64) -> Result<Outcome, &'static str> {
    let (done, waits) = mpsc::channel();
    std::thread::spawn(move || done.send(run::run(kind, device, seed)));
    waits.recv_timeout(HANGS).map_err(|error| match error {
        mpsc::RecvTimeoutError::Disconnected => "panicked, as said above",
        mpsc::RecvTimeoutError::Timeout => HANG,
    })
}

#[test]
#[ignore = "wants root"]
fn senders_go_on_or_have_their_error_after_every_disturbance() {
    assert!(kinds().len() >= 50, "{} kinds", kinds().len());
    let seed = setting("WHARF_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let runs = setting("WHARF_RUNS").map(|runs| runs as usize);
    println!("WHARF_SEED={seed}");
    let mut table = table::Table::new(seed);
    let began = Instant::now();
    for (number, (kind, device)) in plan(seed, runs).into_iter().enumerate() {
        if runs.is_none() && began.elapsed() > BUDGET {
            // Another seed begins with another kind.
            println!("{number} kinds in {BUDGET:?}: WHARF_RUNS has more");
            break;
        }
        let seed = seed.wrapping_add(number as u64);
        let mut outcome = run_apart(kind, device, seed);
        for _ in 1..TRIES {
            // Another program may have had the processors: too slow each time is a fault.
            let Ok(Outcome { slow, .. }) = &outcome else { break };
            if slow.is_empty() {
                break;
            }
            eprintln!("too slow, once more: {slow:?}");
            outcome = run_apart(kind, device, seed);
        }
        let hangs = matches!(outcome, Err(fault) if fault == HANG);
        match outcome {
            Ok(outcome) => table.add(kind, device, outcome),
            Err(fault) => table.fail(kind, device, fault),
        }
        if hangs {
            break;
        }
    }
    table.print();
    assert!(table.failures().is_empty(), "WHARF_SEED={seed}: {:#?}", table.failures());
}
