//! `drops`: packets that a full queue has no room for, and their senders: dropped at the tail, or waiting in
//! turn. In 2011 four senders of a dummy device lost 40 to 60 % of their packets.
//!
//! On the host only: threads send as fast as they can, into `null` and onto a wire far slower than they are.
//! Each round runs all policies one after the other, in alternating order; figures are medians over rounds.
//! Labels are `DEVICE/POLICY/threads=N`. Policies are `drop-tail`, `wait`, both with a queue as in 2011, and
//! `wait+small-queues`, the default of a queue: there most waits are for a sender's own packets.
//!
//! These senders take no time to make a packet, and the device decides the rate. Their share of drops says
//! nothing of 2011, when a packet took 640 ns to make and, mostly, 555 to drain. So `as-2011` is a third
//! device, with senders and a drain as slow as those (`make_ns`, `drain_ns`), which keep a processor busy.
//! The drops of its `drop-tail` are comparable with the published ones if each thread has a processor.

mod run;

use super::published::Published;
use super::{Bench, Experiment, LabError, Row, RowKind, World};
use run::{Measurement, Rig};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "drops",
    what: "a full queue: drops at the tail, or senders that wait in turn; throughput, waits, order of service (2011)",
    has_device: false,
    worlds: &[(World::Host, &[include_str!("../../scenarios/drops.toml")], run)],
};

fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let rig = Rig::new(bench)?;
    let threads = if bench.threads.is_empty() { &[4] } else { bench.threads };
    for device in [Device::Wire, Device::Null, Device::As2011] {
        for &threads in threads {
            let runs = rounds(&rig, device, threads, bench)?;
            bench.rows.extend(rows(bench.published, device, threads, &runs)?);
        }
    }
    Ok(())
}

/// The devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    /// Slower than its senders.
    Wire,
    /// Infinitely fast.
    Null,
    /// Infinitely fast, but draining and sending take as long as in 2011.
    As2011,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Wire => "wire",
            Device::Null => "null",
            Device::As2011 => "as-2011",
        }
    }
}

/// A sender's treatment of a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    DropTail,
    Wait,
    WaitSmallQueues,
}

const POLICIES: [Policy; 3] = [Policy::DropTail, Policy::Wait, Policy::WaitSmallQueues];

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Policy::DropTail => "drop-tail",
            Policy::Wait => "wait",
            Policy::WaitSmallQueues => "wait+small-queues",
        }
    }
}

/// One round: the result of each policy, in the order of [`POLICIES`].
type Round = [Measurement; POLICIES.len()];

fn label(device: Device, policy: Policy, threads: u32) -> String {
    format!("{}/{}/threads={threads}", device.name(), policy.name())
}

fn rounds(rig: &Rig, device: Device, threads: u32, bench: &mut Bench<'_>) -> Result<Vec<Round>, LabError> {
    let mut rounds = Vec::new();
    for round in 0..rig.settings.rounds {
        let mut order = POLICIES;
        if round % 2 == 1 {
            order.reverse();
        }
        let mut measured: [Option<Measurement>; POLICIES.len()] = [const { None }; POLICIES.len()];
        for policy in order {
            let name =
                format!("{}, round {} of {}", label(device, policy, threads), round + 1, rig.settings.rounds);
            measured[policy as usize] = Some(rig.run(device, policy, threads, bench, &name)?);
        }
        rounds.extend(measured.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.try_into().ok()));
    }
    Ok(rounds)
}

/// Returns the middle number, or the mean of the two in the middle.
fn median(mut numbers: Vec<i64>) -> i64 {
    numbers.sort_unstable();
    match numbers.len() {
        0 => 0,
        count if count % 2 == 1 => numbers[count / 2],
        count => (numbers[count / 2 - 1] + numbers[count / 2]) / 2,
    }
}

fn rows(published: &Published, device: Device, threads: u32, rounds: &[Round]) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for policy in POLICIES {
        let figures = Figures { label: label(device, policy, threads), policy, rounds };
        let delivered = figures.row(("delivered", "Mpps"), Measurement::per_second);
        let share = figures.row(("drop_share", "percent"), Measurement::drop_ppm);
        let offered = figures.row(("offered", "Mpps"), Measurement::offered_per_second);
        let share = match (policy, device) {
            (Policy::DropTail, Device::Null | Device::As2011) => {
                beside_2011(published, device, threads, share, delivered.value)?
            }
            _ => share,
        };
        rows.extend([delivered, share, offered]);
        if policy != Policy::DropTail {
            rows.extend(figures.waiting());
        }
    }
    Ok(rows)
}

/// Sets a share of drops beside the published one, and notes the reason of a difference.
fn beside_2011(
    figures: &Published, device: Device, threads: u32, share: Row, mpps: f64,
) -> Result<Row, LabError> {
    let published = drop_percent(figures, threads)?;
    let worst = |end: u32| figures.figure(&format!("dequeue_fairness.worst_case_enobufs_drop_percent.{end}"));
    let mut was = format!("{:+.1} percentage points from what was published", share.value - published);
    if threads >= 4 {
        was += &format!(", {} to {} in the worst case", worst(0)?, worst(1)?);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Near means within a factor of 2, as for predictions.
    let is_near = (published / 2.0..=published * 2.0).contains(&share.value);
    let why = match device {
        Device::As2011 => format!(
            "{}{threads} threads on {processors} processors, where each had one of its own",
            if is_near { "" } else { "not reproduced: " }
        ),
        _ => format!(
            "not reproduced, nor comparable: {mpps:.1} million packets a second leave here, and making \
             one takes no time; as-2011 is as slow as that was"
        ),
    };
    Ok(share.beside(published).saying(&was).saying(&why))
}

/// The results of one policy, in all rounds.
struct Figures<'a> {
    label: String,
    policy: Policy,
    rounds: &'a [Round],
}

impl Figures<'_> {
    /// Returns the row of the median over rounds.
    fn row(&self, what: (&'static str, &'static str), of: impl Fn(&Measurement) -> i64) -> Row {
        self.row_of_rounds(what, |round| of(&round[self.policy as usize]))
    }

    fn row_of_rounds(&self, what: (&'static str, &'static str), of: impl Fn(&Round) -> i64) -> Row {
        Row::new(&self.label, what, median(self.rounds.iter().map(of).collect()), RowKind::Measured)
    }

    /// Returns the rows of waiting, compared with dropping in the same round.
    fn waiting(&self) -> Vec<Row> {
        let ratio = |round: &Round| {
            let dropping = round[Policy::DropTail as usize].per_second().max(1);
            (i128::from(round[self.policy as usize].per_second()) * 1_000_000 / i128::from(dropping)) as i64
        };
        let whole = |count: u64| (count as i64).saturating_mul(1_000_000);
        vec![
            self.row_of_rounds(("delivered_to_dropping", "ratio"), ratio),
            self.row(("dropped", "packets"), |run| whole(run.dropped)),
            self.row(("waits", "sends"), |run| whole(run.waits.count())),
            self.row(("wait_p50", "ns"), |run| whole(run.waits.at_permille(500))),
            self.row(("wait_p99", "ns"), |run| whole(run.waits.at_permille(990))),
            self.row(("wait_p999", "ns"), |run| whole(run.waits.at_permille(999))),
            self.row(("served_before_an_earlier_one", "waits"), |run| whole(run.overtakes)),
        ]
    }
}

/// Returns the published share of drops with `threads` threads in 2011, in percent; the worst case for other
/// numbers.
fn drop_percent(published: &Published, threads: u32) -> Result<f64, LabError> {
    let at = threads.saturating_sub(1);
    published
        .figure(&format!("dequeue_fairness.drop_percent.{at}"))
        .or_else(|_| published.figure("dequeue_fairness.worst_case_enobufs_drop_percent.0"))
}
