//! The queues of a run: the device is opened, wrapped, and put behind a discipline.

use super::plan::Plan;
use crate::host_queue::HostQueue;
use crate::news::{News, treated};
use crate::session::{open, waits_for};
use crate::signals::Signals;
use crate::wrap::{Wrapped, wrap};
use std::sync::Arc;
use std::time::Duration;
use wharf::queue::TxQueue;
use wharf::{Owners, Port};
use wharf_core::delay::DelayMeter;
use wharf_core::device::AnyDevice;
use wharf_core::engine::Batching;
use wharf_core::poller;
use wharf_core::pool::PagePool;
use wharf_tools::traffic::{Schedule, Timed};

/// The device's queues, with all that belongs to them.
pub(super) struct Sending {
    pub(super) name: String,
    pub(super) can_limit: bool,
    pub(super) ports: Vec<Port>,
    /// Those of the ports.
    pub(super) queues: Vec<TxQueue>,
    /// The other end is in this process.
    pub(super) has_far_end: bool,
    /// Time that a frame takes to the far end.
    pub(super) delay: Duration,
    pub(super) wrapped: Wrapped,
    /// A record of the delays in each queue's discipline, for a page.
    pub(super) meters: Vec<DelayMeter>,
    /// The queue of the host's network stack behind the device.
    pub(super) host_queue: Option<HostQueue>,
}

/// Opens the device's queues.
pub(super) fn sending(
    plan: &Plan, pool: &PagePool, batching: Batching, schedule: Option<&Arc<Schedule>>, signals: &Signals,
) -> anyhow::Result<Sending> {
    let (args, to) = (&plan.args, &plan.args.to);
    let settings = poller::Settings { mode: args.poll, ..poller::Settings::default() };
    let port = Port::builder_of(to, plan.direction()).pool(pool).poller(settings).one_poller(true);
    let port = port.owners(Owners::Senders).takes_chains(true).batching(batching).byte_limits(args.bql);
    let port = treated(port.small_queues(plan.small_queue_bytes), args.recovery, to);
    let port = open("--to", to, port, args.queues, signals, args.recovery.give_up)?;
    let devices = port.devices();
    let completes = |device: &AnyDevice| device.as_tx().is_some_and(|tx| tx.info().has_real_completions());
    let can_limit = devices.first().is_some_and(|first| completes(&first.device));
    let has_far_end = devices.iter().any(|opened| opened.far_end.is_some());
    let delay = devices.first().map_or(Duration::ZERO, |opened| opened.delay);
    // Each packet costs a little more: not without a page.
    let meters = devices.iter().filter(|_| args.report.is_some()).map(|_| DelayMeter::default());
    let meters: Vec<DelayMeter> = meters.collect();
    let qdisc = |at| DelayMeter::around(meters.get(at), args.qdisc.build(args.when_full.setup()), pool);
    let mut qdiscs: Vec<_> = (0..devices.len()).map(|at| Some(qdisc(at))).collect();
    let ((mut wrap, wrapped), schedule) = (wrap(&args.wrap)?, schedule.cloned());
    let port = port.wrap(move |device| timed(wrap(device), schedule.as_ref()));
    let waits = waits_for(to).at_most(args.recovery.give_up);
    let queues = args.queues;
    let behind = to.clone();
    let build = move || {
        let ports = port.build_queues(queues, |queue, at| match qdiscs.get_mut(at).and_then(Option::take) {
            Some(qdisc) => queue.qdisc(qdisc),
            None => queue,
        });
        // It may ask for a name's address.
        ports.map(|ports| (ports, HostQueue::of(&behind)))
    };
    let (ports, host_queue) = signals.unless_asked(&waits, build)??;
    let queues: Vec<TxQueue> = ports.iter().flat_map(Port::queue).cloned().collect();
    let name = ports.first().map_or_else(|| to.name(), |port| port.name().into());
    Ok(Sending { host_queue, name, can_limit, ports, queues, has_far_end, delay, wrapped, meters })
}

impl Sending {
    /// Begins the watch over the device.
    pub(super) fn news(&self, plan: &Plan) -> anyhow::Result<News> {
        let news = News::of(&self.ports, &plan.args.to, plan.args.recovery)?;
        Ok(news.reset_with(self.wrapped.resets()))
    }
}

/// Returns `device`, with the times of departures kept in `schedule`, if there is one.
fn timed(device: AnyDevice, schedule: Option<&Arc<Schedule>>) -> AnyDevice {
    match (device, schedule) {
        (AnyDevice::Tx(device), Some(schedule)) => AnyDevice::tx(Timed::new(device, schedule.clone())),
        (AnyDevice::Duplex(device), Some(schedule)) => {
            AnyDevice::duplex(Timed::new(device, schedule.clone()))
        }
        (device, _) => device,
    }
}
