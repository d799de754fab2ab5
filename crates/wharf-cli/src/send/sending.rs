//! The queues of a run: the device is opened, wrapped, and put behind a discipline.

use super::plan::Plan;
use crate::recovery::Recovery;
use crate::session::{open, waits_for};
use crate::signals::Signals;
use crate::wrap::{Wrapped, wrap};
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use wharf::forward::DelayMeter;
use wharf::queue::TxQueue;
use wharf_core::device::{AnyDevice, Duplex, TxSide};
use wharf_core::engine::Batching;
use wharf_core::pool::PagePool;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::spec::Queues;
use wharf_tools::traffic::{Schedule, Timed};

/// The device's queues, with all that belongs to them.
pub(super) struct Sending {
    pub(super) name: String,
    pub(super) has_bql: bool,
    pub(super) queues: Vec<TxQueue>,
    pub(super) far_end: Option<Box<dyn Duplex>>,
    /// Time that a frame takes to the far end.
    pub(super) delay: Duration,
    pub(super) wrapped: Wrapped,
    pub(super) recovery: Recovery,
    /// A record of the delays in each queue's discipline, for a page.
    pub(super) meters: Vec<DelayMeter>,
}

/// Opens the device's queues.
pub(super) fn sending(
    plan: &Plan, pool: &PagePool, batching: Batching, schedule: Option<&Arc<Schedule>>, signals: &Signals,
) -> anyhow::Result<Sending> {
    let mut all: Option<Sending> = None;
    let direction = plan.direction();
    let queues = Queues { count: plan.args.queues, ..Queues::default() };
    let mut opened =
        open("--to", true, &plan.args.to, direction, queues, signals, plan.args.recovery.give_up)?;
    let recovery = Recovery::around(plan.args.recovery, &plan.args.to, direction, queues, &mut opened)?;
    for opened in opened {
        let completes = opened.device.as_tx().is_some_and(|device| device.info().has_real_completions());
        let (name, has_bql) = (opened.device.name(), completes && !plan.args.bql.is_off());
        let (device, wrapped) = wrap(opened.device, &plan.args.wrap, &recovery)?;
        let device = match schedule {
            Some(schedule) => match device.try_into()? {
                TxSide::Tx(device) => AnyDevice::tx(Timed::new(device, schedule.clone())),
                TxSide::Duplex(device) => AnyDevice::duplex(Timed::new(device, schedule.clone())),
            },
            None => device,
        };
        let qdisc = plan.args.qdisc.build(plan.args.when_full.setup());
        // Each packet costs a little more: not without a page.
        let meter = plan.args.report.is_some().then(DelayMeter::default);
        let qdisc = DelayMeter::around(meter.as_ref(), qdisc, pool);
        let builder = TxQueue::builder_of(pool, device, Arc::new(HostClock), Arc::new(HostPark))?
            .qdisc(qdisc)
            .batching(batching)
            .small_queues(plan.small_queue_bytes)
            .byte_limits(plan.args.bql);
        let waits = waits_for(&plan.args.to).at_most(plan.args.recovery.give_up);
        let queue = signals.unless_asked(&waits, move || builder.build())??;
        let (far_end, delay) = (opened.far_end, opened.delay);
        let recovery = recovery.clone();
        let (queues, meters) = (Vec::new(), Vec::new());
        let first = || Sending { name, has_bql, queues, far_end, delay, wrapped, recovery, meters };
        let all = all.get_or_insert_with(first);
        all.queues.push(queue);
        all.meters.extend(meter);
    }
    all.context("a device has at least one queue")
}
