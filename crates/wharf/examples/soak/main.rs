//! Soak: the path in a bad week, again and again for a given time.
//!
//! ```sh
//! cargo run --release -p wharf --example soak -- SECONDS [SEED]
//! ```
//! In each round 64 senders on two processors share one queue. They come and go, wait, drop, cancel watches and futures,
//! panic in mid-send, and die while they wait. The device stalls, fails, loses notifications and takes less than it is
//! offered. Owners die between two steps; control messages and wakers panic. Now and then the device itself panics, and its
//! queue dies. At the end of a round every packet is accounted for, each sender's in order, and no frame is out. All users
//! of a dead queue have got its error.
//!
//! The seed decides as far as threads allow: the same seed gives the same kinds of rounds.

mod device;
mod random;
mod round;
mod senders;

use random::Random;
use round::{Round, Totals};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for which a round sends.
const ROUND: Duration = Duration::from_millis(700);
/// Time limit of a round, on the slowest machine.
const ROUND_MAX: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).map(|text| text.parse::<u64>());
    let (seconds, seed) = match (number(0), number(1)) {
        (Some(Ok(seconds @ 1..)), None) => (seconds, any_seed()),
        (Some(Ok(seconds @ 1..)), Some(Ok(seed))) => (seconds, seed),
        _ => {
            eprintln!("soak: want SECONDS, and a SEED if it is to be an old one: soak 60 4711");
            return ExitCode::from(2);
        }
    };
    println!("soak: seed {seed}");
    senders::silence_wanted_panics();
    match soak(Duration::from_secs(seconds), seed) {
        Ok((rounds, totals)) => {
            println!("soak: {rounds} rounds in {seconds} s, seed {seed}: {totals}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("soak: FAILED, seed {seed}: {what}");
            ExitCode::FAILURE
        }
    }
}

fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % 1_000_000_000)
}

/// Runs rounds until the time is over. Returns their number and their totals.
fn soak(time: Duration, seed: u64) -> Result<(u64, Totals), String> {
    let (began, mut random) = (Instant::now(), Random::new(seed));
    let (mut rounds, mut totals) = (0, Totals::default());
    while rounds == 0 || began.elapsed() < time {
        let round = Round::new(&mut random, rounds);
        let name = format!("round {rounds}, {round:?}");
        let left = time.saturating_sub(began.elapsed()).clamp(ROUND / 4, ROUND);
        totals.add(&within_time(round, left).map_err(|what| format!("{name}: {what}"))?);
        rounds += 1;
    }
    Ok((rounds, totals))
}

/// Runs a round in a thread of its own, with a time limit.
fn within_time(round: Round, time: Duration) -> Result<Totals, String> {
    let (done, waits) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(round.run(time));
    });
    match waits.recv_timeout(time + ROUND_MAX) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => Err("it hangs".into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(senders::what_panicked(thread.join())),
    }
}
