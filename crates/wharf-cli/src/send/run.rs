//! One run: pool, device, queue, receiver and senders, from the first frame to the account at the end.

mod echo;
mod receiving;
mod supervise;

use super::account::{Account, Sent};
use super::judge::judge;
use super::plan::Plan;
use super::sending::{Sending, sending};
use super::table;
use super::traffic::frame_bytes_for;
use crate::args::{SmallQueues, WhenFull};
use crate::host_queue::HostQueue;
use crate::news::News;
use crate::output::{detail, note};
use crate::outside::Outside;
use crate::page::Page;
use crate::processor::Meter;
use crate::queues::sum;
use crate::report::Report;
use crate::sandbox::Sandbox;
use crate::session::{Outcome, joined, start, tell_mode};
use crate::verdict::link_bps;
use crate::watch::{Running, Settings};
use anyhow::anyhow;
use receiving::{Received, Receiving};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;
use supervise::{Settled, Supervisor};
use wharf::queue::TxQueue;
use wharf_core::delay::DelayMeter;
use wharf_core::device::PATIENCE;
use wharf_core::engine::Batching;
use wharf_core::host::Clock;
use wharf_core::pool::PagePool;
use wharf_core::sender::Spread;
use wharf_devices::host::{ExactClock, processors};
use wharf_tools::traffic::{Drive, Echo, Pause, Pauses, Schedule, Submit, Verify};

/// Most frames of the receiver: enough for a wire of 10 Gbit/s with a delay of 1 ms at 64 bytes. Unused memory costs nothing.
const RECEIVER_FRAMES: u32 = 16384;
/// With `--echo`, a frame counts as lost once this many times the memory of both ends was sent after it.
const ECHO_MEMORIES: u32 = 64;

/// Shortest pause of the process that gets a note: a busy machine makes shorter ones.
const TOLD_PAUSE_NS: u64 = 1_000_000_000;

/// Time from now to the first frame that is due, for the threads to start.
const LEAD_NS: u64 = 2_000_000;

/// Makes run `number`, in `sandbox` from the moment at which all is open.
pub(super) fn run(
    plan: &Plan, batching: Batching, number: usize, sandbox: Option<&Sandbox>, outside: &Outside,
) -> anyhow::Result<Outcome<Report>> {
    let Outside { signals, page, board, .. } = outside;
    let pool = pool(plan, plan.frames())?;
    check_length(plan, &pool)?;
    tell_memory(plan);
    let (schedule, link_bps) =
        ((!plan.pace().is_top()).then(|| Schedule::new(&pool)), link_bps(&plan.args.to));
    let sending = sending(plan, &pool, batching, schedule.as_ref(), signals)?;
    let Sending { name, ports, queues, meters, .. } = &sending;
    let can_limit = sending.can_limit;
    let running = Running::sending(name, queues, can_limit, settings(plan, batching), meters.clone());
    board.put(vec![running.clone().of_run(number)]);
    let receiving =
        sending.has_far_end.then(|| Receiving::start(plan, &ports[0], sending.delay)).transpose()?;
    let echo = plan.args.echo.then(|| Echo::new(&ports[0], check(plan))).transpose()?;
    board.put_pollers(ports[0].poller_counters());
    let mut news = sending.news(plan)?;
    sandbox.map_or(Ok(()), Sandbox::enter)?;
    tell_mode(name, queues[0].device_mode_reason());
    tell_endless(plan, name);
    page.begin(Some(&name_of(plan, batching)));
    let sent = send(plan, &sending, &mut news, echo.as_ref(), schedule.as_ref(), outside);
    if let (Some(echo), Ok(_)) = (&echo, &sent) {
        echo::wait(echo, &queues[0], signals);
    }
    let (away, echoed) = (news.end(), echo.map(echo::finish));
    ports.iter().for_each(|port| drop(port.close(Duration::ZERO)));
    let received = receiving.map(|receiving| receiving.finish(signals)).transpose();
    let sent = sent?;
    // Reap all queues first: they share the pool.
    queues.iter().for_each(TxQueue::poll);
    let (audit, received) = (queues[0].audit(), received?);
    page_delays(page, &name_of(plan, batching), &sending, received.as_ref());
    let (is_cut, receiving) = received.as_ref().map_or((false, None), |one| (one.is_cut, one.time));
    let received = received.map(|Received { findings, .. }| findings.into()).or(echoed);
    let timing = schedule.map(|schedule| schedule.errors());
    let (sending, sent, running) = (&sending, &sent, &running);
    let account = Account { plan, sending, sent, running, audit, timing, received, is_cut };
    let mut outcome = account.close(signals.asked());
    outcome.faults.extend(away);
    plan.tell_streamed();
    let away_seconds = news.absent().as_secs_f64();
    outcome.report.verdict = Some(judge(plan, &outcome.report, sent, receiving, away_seconds, link_bps));
    Ok(outcome)
}

/// Adds to the page how long packets of the run `name` waited in the discipline, and how long they took to arrive.
fn page_delays(page: &Page, name: &str, sending: &Sending, received: Option<&Received>) {
    let Sending { meters, queues, .. } = sending;
    let packets = sum(queues, |all| all.packets.get());
    if !meters.is_empty() {
        page.add_delays(&format!("{name}: in the queue"), &DelayMeter::sum(meters, packets).all);
    }
    if let Some(delays) = received.and_then(|received| received.findings.latencies.as_ref()) {
        page.add_delays(&format!("{name}: to arrival"), &delays.all());
    }
}

/// Returns the name of a run among those of the page.
fn name_of(plan: &Plan, batching: Batching) -> String {
    match plan.batchings.len() {
        0 | 1 => "sent".into(),
        _ => format!("batching {}", table::column_name(&batching)),
    }
}

fn tell_endless(plan: &Plan, name: &str) {
    if plan.is_endless {
        note(&format!("sending to {name} until a signal; --count N or --seconds S would end it"));
    }
}

/// Prints a note if the process did not run for a while. The summary has the other pauses.
fn tell_pauses(pauses: &Pauses, catch_up: Duration) {
    let Pause { count, total_ns, max_ns } = pauses.process;
    if max_ns >= TOLD_PAUSE_NS {
        let (times, total) = (if count == 1 { "once" } else { "several times" }, total_ns as f64 / 1e9);
        let then = match catch_up >= Duration::from_nanos(max_ns) {
            true => "was sent at once as it ran again",
            false => "is not sent as one burst, but later",
        };
        note(&format!("this process did not run {times}, for {total:.1} s in all: what was due then {then}"));
    }
}

fn tell_memory(plan: &Plan) {
    detail(|| {
        let (frames, small) = (plan.frames(), plan.small_queue_bytes);
        let small = small.map_or("no small queue".into(), |bytes| format!("small queues of {bytes} bytes"));
        format!("memory: {frames} frames of {} bytes; bursts of {}, {small}", plan.frame_bytes, plan.burst)
    });
}

/// Returns the settings that a run begins with, and that may be changed while it goes on.
fn settings(plan: &Plan, batching: Batching) -> Settings {
    Settings {
        rate: None,
        burst: None,
        bql: plan.args.bql,
        batching,
        qdisc: plan.args.qdisc.clone(),
        is_shortened: false,
        when_full: plan.args.when_full,
        when_full_follows: false,
        small_queues: SmallQueues(plan.small_queue_bytes),
        link: None,
        rate_changes: 0,
    }
}

fn pool(plan: &Plan, frames: u32) -> anyhow::Result<PagePool> {
    let pool = PagePool::builder().frames(frames).frame_bytes(plan.frame_bytes);
    Ok(pool.build()?)
}

/// Returns what checks the packets at the other end. No more are under way than the memory of both ends has
/// frames.
fn check(plan: &Plan) -> Box<dyn Verify> {
    let memory = plan.frames().saturating_add(plan.frames_within(RECEIVER_FRAMES));
    // Frames inside a network are in no memory of this process.
    let frames_max = if plan.args.echo { memory.saturating_mul(ECHO_MEMORIES) } else { memory };
    plan.traffic.check(plan.args.qdisc.kind().order, frames_max)
}

/// Checks that every frame fits the memory of one, and says which size would do.
fn check_length(plan: &Plan, pool: &PagePool) -> anyhow::Result<()> {
    let (longest, room) = (plan.traffic.longest_bytes(), pool.region().data_bytes_max());
    if longest <= room {
        return Ok(());
    }
    let enough = frame_bytes_for(longest);
    Err(anyhow!(
        "a frame of {longest} bytes does not fit: memory is for {room}; --frame-bytes {enough} would do"
    ))
}

/// Returns the processor of thread `at`, if processors were named.
fn cpu_of(plan: &Plan, at: usize) -> Option<usize> {
    plan.args.cpu.get(at % plan.args.cpu.len().max(1)).copied()
}

/// Makes the sender of thread `at`, or one for each queue.
fn senders_of(plan: &Plan, queues: &[TxQueue], at: u16) -> anyhow::Result<Box<dyn Submit>> {
    let sender = |queue: &TxQueue| queue.sender(&format!("sender {at}"));
    let [queue] = queues else {
        return Ok(Box::new(Spread::new(queues.iter().map(sender).collect::<Result<_, _>>()?)?));
    };
    if plan.args.when_full == WhenFull::DropTail {
        queue.set_drop_tail(true);
        queue.set_patience(Some(PATIENCE));
    }
    Ok(Box::new(sender(queue)?))
}

/// Runs the senders until they have ended and all frames have left.
fn send(
    plan: &Plan, sending: &Sending, news: &mut News, echo: Option<&Echo>, schedule: Option<&Arc<Schedule>>,
    outside: &Outside,
) -> anyhow::Result<Sent> {
    let senders = (0..plan.threads()).map(|at| senders_of(plan, &sending.queues, at));
    let senders = senders.collect::<anyhow::Result<Vec<_>>>()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (results, ended) = mpsc::channel();
    let start_ns = ExactClock.now_ns() + LEAD_NS;
    // Each thread that watches the clock wants a processor, and so does the other end.
    let watches_clock = usize::from(plan.threads()) < processors().len();
    let catch_up_ns = u64::try_from(plan.args.catch_up.as_nanos()).unwrap_or(u64::MAX);
    let mut threads = Vec::new();
    for (at, (sender, part)) in senders.into_iter().zip(plan.traffic.parts()).enumerate() {
        let stop = stop.clone();
        let (pace, burst_packets, results) = (plan.pace_of(at), plan.burst, results.clone());
        let schedule = schedule.cloned();
        let fails = sending.wrapped.failing_takes(at as u32);
        let send = move || {
            let schedule = schedule.as_deref();
            let drive =
                Drive { pace, start_ns, burst_packets, watches_clock, catch_up_ns, schedule, stop: &stop };
            let (mut sender, meter) = (sender, Meter::of_thread());
            let driven = part.drive(&drive, &mut *sender, fails);
            // The sender leaves before its result says that it has ended.
            let time = meter.elapsed();
            drop(sender);
            // The receiver is gone only if another thread could not be started.
            let _ = results.send(driven);
            time
        };
        threads.push(start(&format!("wharf-send-{at}"), cpu_of(plan, at), send)?);
    }
    drop(results);
    let supervisor = Supervisor::new(plan, sending, news, echo, &stop, outside);
    let driven = supervisor.wait(&ended);
    let time = threads.into_iter().map(joined).sum::<anyhow::Result<_>>()?;
    let driven = driven?;
    let first_ns = driven.iter().filter(|driven| driven.packets > 0).map(|driven| driven.first_ns).min();
    let pauses = driven.iter().map(|driven| driven.pauses).max_by_key(Pauses::total_ns).unwrap_or_default();
    tell_pauses(&pauses, plan.args.catch_up);
    let Settled { end_ns, given_up, lost, short_share, unrefused_seconds } = supervisor.settle();
    let host_queue = sending.host_queue.as_ref().and_then(HostQueue::report);
    let span_ns = end_ns.saturating_sub(first_ns.unwrap_or(end_ns));
    Ok(Sent { span_ns, given_up, lost, pauses, time, short_share, host_queue, unrefused_seconds })
}
