//! One run: load, a disturbance at a random time, and what follows it.

use crate::bed::{Bed, LONG, wait_until};
use crate::kind::{Device, End, Kind};
use std::time::Duration;
use wharf::State;

/// Time from the end of the cause until traffic goes on, or each sender has its error.
const RESUMES: Duration = Duration::from_secs(1);
/// The longest time of a call beyond its deadline. It is generous: the machine is shared.
const LATE: Duration = Duration::from_millis(250);
/// Packets that leave, and those that arrive, where traffic goes on.
const SENT: u64 = 256;
const ARRIVED: u64 = 32;

/// Outcome of a run.
pub struct Outcome {
    /// From the end of the cause until traffic went on, or each sender had its error. `None` if that never came.
    pub after: Option<Duration>,
    pub late: Duration,
    pub failures: Vec<(&'static str, u64)>,
    /// Faults.
    pub faults: Vec<String>,
    /// Waits that took too long: a fault, unless other programs have taken the processors.
    pub slow: Vec<String>,
}

impl Outcome {
    /// Adds `what` to the faults if it took longer than [`RESUMES`]; how long, if it came at all, decides to which.
    fn judge(&mut self, what: &str, after: Option<Duration>, bed: &Bed) {
        if after.is_none_or(|after| after > RESUMES) {
            let fault = format!("{what} after {after:?}: {:?}", bed.path.state());
            if after.is_some() { &mut self.slow } else { &mut self.faults }.push(fault);
        }
    }
}

pub fn run(kind: &Kind, device: Device, seed: u64) -> Outcome {
    let mut bed = Bed::new(kind, device, seed);
    let (faults, slow) = (Vec::new(), Vec::new());
    let mut outcome = Outcome { after: None, late: Duration::ZERO, failures: Vec::new(), faults, slow };
    // A peer may take a while to be there.
    if went_on(&bed, (0, 0)).is_none() {
        outcome.faults.push(format!("nothing leaves at first: {:?}", bed.path.state()));
    }
    let time = bed.time(20, 120);
    std::thread::sleep(time);
    (kind.disturb)(&mut bed);
    outcome.after = match kind.end {
        End::Resumes => goes_on(&bed),
        End::Errors => failed(&bed),
    };
    outcome.judge(&format!("{:?}", kind.end), outcome.after, &bed);
    if kind.end == End::Resumes && bed.random.below(4) == 0 {
        // Nothing is left of the disturbance that would keep the device from being opened again.
        bed.path.reopen().unwrap();
        outcome.judge("reopened afterwards", goes_on(&bed), &bed);
    }
    outcome.faults.extend(close(&mut bed));
    outcome.late = bed.load.late();
    if outcome.late > LATE {
        outcome.slow.push(format!("a call ended {:?} after its deadline", outcome.late));
    }
    outcome.failures = bed.path.queue().unwrap().counters().failures();
    outcome
}

/// Waits until traffic goes on from now, and the path says that it is up.
fn goes_on(bed: &Bed) -> Option<Duration> {
    let after = went_on(bed, (bed.sent(), bed.far.packets().unwrap_or(0)))?;
    Some(after + wait_until(LONG, || bed.path.state() == State::Up)?)
}

/// Waits until packets leave, and arrive, beyond these counts.
fn went_on(bed: &Bed, (sent, arrived): (u64, u64)) -> Option<Duration> {
    wait_until(LONG, || {
        bed.sent() >= sent + SENT && bed.far.packets().is_none_or(|packets| packets >= arrived + ARRIVED)
    })
}

/// Waits until each sender has had an error since.
fn failed(bed: &Bed) -> Option<Duration> {
    let before = bed.load.errors();
    let ended = |at: usize, errors: u64| errors > before[at] || bed.load.is_over(at);
    wait_until(LONG, || bed.load.errors().into_iter().enumerate().all(|(at, errors)| ended(at, errors)))
}

/// Ends the senders and closes the path. Returns what does not add up.
fn close(bed: &mut Bed) -> Vec<String> {
    let accepted = bed.load.end();
    let mut faults = std::mem::take(&mut *bed.load.shared.strange.lock().unwrap());
    let audit = bed.path.close(Duration::from_millis(200));
    let far = bed.far.close();
    let counters = bed.path.queue().unwrap().counters();
    let ends = [&counters.sent, &counters.failed, &counters.returned].map(|counter| counter.get());
    let by_reason: u64 = counters.failures().iter().map(|(_, count)| count).sum();
    if (accepted, accepted) != (ends.iter().sum(), counters.accepted.get()) || by_reason != ends[1] {
        let (all, failures) = (counters.accepted.get(), counters.failures());
        faults
            .push(format!("{accepted} or {all} accepted, sent, failed and returned {ends:?}, {failures:?}"));
    }
    if audit.out() != 0 || far != 0 {
        faults.push(format!("frames are out: {audit}, {far} at the far end"));
    }
    faults
}
