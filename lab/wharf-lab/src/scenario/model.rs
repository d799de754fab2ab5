//! A scenario in virtual time, over the modelled path.

use super::{Figures, Link, Owner, Scenario};
use crate::experiment::{LabError, Row, RowKind};
use crate::models::wharf_path::{self, Costs, SenderSetup, Setup, Threads};
use wharf_core::engine::Batching;
use wharf_sim::engine::cache_line::LineCosts;
use wharf_sim::engine::cpu::{Smt, Tick};
use wharf_sim::flows::arrivals::Schedule;
use wharf_sim::harness::Timing;
use wharf_sim::nic::simple;

/// Descriptors of a device without a line.
const NULL_RING_FRAMES: u32 = 1024;
/// Frames of a lane, and of a sender's cache.
const LANE_FRAMES: usize = 512;

/// Runs `scenario` in virtual time. The same seed gives the same rows, to the byte, on any machine. Asks `goes_on`
/// several times a second.
///
/// # Errors
/// [`LabError::Run`]: the run was interrupted, or broke a rule of the path.
pub fn predict(
    scenario: &Scenario, seed: u64, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<Row>, LabError> {
    Ok(figures(scenario, seed, goes_on)?.rows(scenario, RowKind::Predicted))
}

/// Returns the figures of a run.
pub(super) fn figures(
    scenario: &Scenario, seed: u64, goes_on: &mut dyn FnMut() -> bool,
) -> Result<Figures, LabError> {
    let setup = setup(scenario, seed);
    let nic = simple::Costs {
        doorbell_ps: scenario.doorbell_ps,
        wire_ps_per_byte: scenario.link.map_or(0, |link| link.ps_per_byte()),
        ..simple::Costs::default()
    };
    let outcome = wharf_path::run(setup, nic, goes_on)
        .map_err(|source| LabError::Run { run: scenario.file.clone(), source })?;
    let packets: Vec<u64> = outcome.by_sender.iter().map(|sent| sent.0).collect();
    Ok(Figures {
        by_sender: packets,
        wire_bytes: outcome.by_sender.iter().map(|sent| sent.1).sum(),
        measured_ns: outcome.measured_ns,
        doorbells: outcome.doorbells,
        packets_given: outcome.packets_in_all,
        limit_bytes: outcome.limit_bytes,
        delays: scenario.by_group(&outcome.delays),
    })
}

/// Returns the number of frames of the pool: what lanes, caches, discipline and device hold.
pub(super) fn pool_frames(scenario: &Scenario) -> u32 {
    let ring = scenario.link.map_or(NULL_RING_FRAMES, |link| link.ring_frames);
    let senders = scenario.each_sender().map(|sender| LANE_FRAMES + 2 * sender.burst).sum::<usize>();
    (senders as u32 + scenario.qdisc.packets().min(1 << 16) as u32 + ring + 1024).next_power_of_two()
}

fn setup(scenario: &Scenario, seed: u64) -> Setup {
    let machine = &scenario.machine;
    let dedicated = scenario.owner == Owner::Dedicated;
    let cpus = machine.cpus.saturating_sub(usize::from(dedicated)).clamp(1, scenario.sender_count());
    let threads = threads(scenario);
    let sender = |(number, sender): (usize, &super::Sender)| SenderSetup {
        burst: sender.burst,
        frame_bytes: sender.bytes,
        band: sender.band,
        schedule: Schedule::new(sender.arrivals.clone(), sender.burst, seed, number),
    };
    Setup {
        cpus,
        senders: scenario.each_sender().enumerate().map(sender).collect(),
        policy: scenario.policy,
        dedicated,
        batching: Batching::On,
        qdisc: Some(scenario.qdisc.clone()),
        byte_limits: scenario.byte_limits,
        small_queues: scenario.small_queues,
        ring_frames: scenario.link.map_or(NULL_RING_FRAMES, |link| link.ring_frames) as usize,
        completion_gap_ns: if threads.is_some() { 1 } else { completion_gap_ns(scenario) },
        threads,
        pool_frames: pool_frames(scenario),
        smt: Smt::default(),
        costs: costs(scenario, cpus > 1 || dedicated),
        slice_ns: machine.slice_ns,
        switch_ns: machine.switch_ns,
        time: Timing {
            seed,
            jitter_permille: machine.jitter_permille,
            settle_ns: scenario.settle_ns,
            measure_ns: scenario.measure_ns,
        },
    }
}

/// Returns the threads of a machine, for `fifo` and `prio`. Under other disciplines a second sender starves
/// in the model, for a reason
/// that is not known yet: senders look again after a while there, on an exact clock.
fn threads(scenario: &Scenario) -> Option<Threads> {
    let machine = &scenario.machine;
    let threads = Threads {
        polled: scenario.is_polled(),
        wake_ns: machine.wake_ns,
        late_ns: machine.late_ns,
        clock_ns: machine.tick_every_ns,
        spin_ns: super::SPIN_NS,
    };
    matches!(scenario.build_qdisc().name(), "fifo" | "prio").then_some(threads)
}

/// Returns the time between two looks at a line's completions where no poller is modelled: the machine's
/// lateness, or a sixteenth of
/// the time that the ring lasts if that is less.
fn completion_gap_ns(scenario: &Scenario) -> u64 {
    let Some(link) = scenario.link.filter(|_| scenario.owner == Owner::Senders) else { return 1 };
    let frame_bytes = scenario.senders.iter().map(|group| group.bytes).max().unwrap_or(0);
    let frame_ps = Link::wire_bytes(frame_bytes) * link.ps_per_byte();
    scenario.machine.late_ns.min(u64::from(link.ring_frames) * frame_ps / 16_000)
}

fn costs(scenario: &Scenario, shared: bool) -> Costs {
    let machine = &scenario.machine;
    let driver_ns = match (scenario.link, scenario.sender_count()) {
        (None, _) => machine.driver_ns,
        (Some(_), 1) => machine.wire_driver_ns + machine.wire_alone_ns,
        (Some(_), _) => machine.wire_driver_ns,
    };
    Costs {
        make_ns: machine.make_ns,
        clock_ns: machine.clock_ns,
        stage_ns: machine.stage_ns,
        word: LineCosts { hit_ns: machine.hit_ns, transfer_ns: machine.transfer_ns },
        pull_ns: machine.pull_ns + if shared { machine.remote_ns } else { 0 },
        driver_ns,
        // A line reads the clock for a doorbell, and for its completions.
        doorbell_drain_ns: machine.call_ns + if scenario.link.is_some() { 2 * machine.clock_ns } else { 0 },
        reclaim_ns: machine.reclaim_ns,
        again_ns: machine.again_ns,
        look_ns: machine.look_ns,
        pause_ns: machine.pause_ns,
        lane_ns: machine.lane_ns,
        tick: Tick { every_ns: machine.tick_every_ns, cost_ns: machine.tick_cost_ns },
    }
}
