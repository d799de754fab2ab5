//! World host: streams and round trips between a virtual machine's queue (`virtio-user`) and a device
//! (`vhost-user`), in one process. Each side has a thread. A further one is an application that sends by
//! itself (UDP), in place of flows that continue when answers are heard (TCP, as far as it decides when to
//! send).
//!
//! The modes take turns in each round, and each figure is the median of the rounds. The published figures
//! beside are of another set-up: a virtual machine with Linux's driver and TCP, over vhost-net.

mod application;
mod counts;
mod far;
mod guest;
mod load;
mod machine;
mod message;

use super::super::published::Published;
use crate::experiment::row::median;
use crate::experiment::{Bench, LabError, Row, RowKind, host};
use load::{FLOWS, Load, Work};
use machine::Measurement;
use serde::Deserialize;
use std::time::Duration;
use wharf_core::poller::{self, Mode};
use wharf_core::pool::PagePool;

/// The modes as in `virtio-user:SOCKET,napi=`, and their names in the published rows.
const MODES: [(&str, Option<&str>); 3] = [("off", Some("upstream")), ("timer", None), ("on", Some("napi"))];
const ANOTHER: &str = "published for another set-up: Linux's driver in a virtual machine over vhost-net";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let rig = Rig::new(bench)?;
    let mut loads = Load::all(rig.settings.long_bytes);
    if let Some(only) = (bench.parameters.get("only_load")? as usize).checked_sub(1) {
        loads = loads.into_iter().skip(only).take(1).collect();
    }
    for (done, load) in loads.iter().enumerate() {
        let mut ran = MODES.map(|_| Vec::new());
        for round in 0..rig.settings.rounds {
            for ((napi, _), ran) in MODES.into_iter().zip(&mut ran) {
                let name = format!(
                    "{} of {}: {}/napi={napi}, round {} of {}",
                    done + 1,
                    loads.len(),
                    load.label(),
                    round + 1,
                    rig.settings.rounds
                );
                ran.push(rig.run(load, napi, bench, &name)?);
            }
        }
        for ((napi, published), ran) in MODES.into_iter().zip(&ran) {
            bench.packets += ran.iter().map(|ran| ran.messages).sum::<u64>();
            bench.rows.extend(rows(bench.published, load, napi, published, ran)?);
        }
        bench.rows.extend(ratios(load, &ran));
    }
    Ok(())
}

/// Returns the medians of the rounds.
fn rows(
    figures: &Published, load: &Load, napi: &str, published: Option<&str>, ran: &[Measurement],
) -> Result<Vec<Row>, LabError> {
    let label = format!("{}/napi={napi}", load.label());
    let row = |what, figure: &dyn Fn(&Measurement) -> f64| {
        Row::new(&label, what, (median(ran.iter().map(figure).collect()) * 1e6) as i64, RowKind::Measured)
    };
    let payload_bytes = f64::from(load.payload_bytes);
    let per_second = |count: u64, ran: &Measurement| count as f64 / ran.seconds;
    let beside = |row: Row, key: Option<&str>| -> Result<Row, LabError> {
        let (Some(key), Some(which)) = (key, published) else { return Ok(row) };
        let at = FLOWS.iter().position(|&flows| flows == load.flows).unwrap_or(0);
        Ok(row.beside(figures.figure(&format!("tx_napi.{key}.{which}.{at}"))?).saying(ANOTHER))
    };
    let is_round_trip = load.work == Work::RoundTrip;
    let rate = match is_round_trip {
        true => row(("round_trips", "per s"), &|ran| per_second(ran.messages, ran)),
        false => row(("payload", "Mbit/s"), &|ran| per_second(ran.messages, ran) * payload_bytes * 8.0 / 1e6),
    };
    let (p50, p99) = if is_round_trip {
        (("round_trip_p50", "us"), ("round_trip_p99", "us"))
    } else {
        (("wait_p50", "us"), ("wait_p99", "us"))
    };
    let [of_rate, of_p50, of_p99] = load.published();
    let per_message = |count: u64, ran: &Measurement| count as f64 / ran.whole.messages.max(1) as f64;
    Ok(vec![
        beside(rate, of_rate)?,
        beside(row(p50, &|ran| ran.p50_ns as f64 / 1e3), of_p50)?,
        beside(row(p99, &|ran| ran.p99_ns as f64 / 1e3), of_p99)?,
        row(("cpu", "s per s"), &|ran| ran.cpu_seconds / ran.seconds),
        row(("interrupts", "per message"), &|ran| per_message(ran.whole.interrupts, ran)),
        row(("kicks", "per message"), &|ran| per_message(ran.whole.kicks, ran)),
        row(("in_flight", "bytes"), &|ran| ran.in_flight * payload_bytes),
        row(("cleaned_from_receive", "percent"), &|ran| {
            per_message(ran.whole.cleaned_from_receive, ran) * 100.0
        }),
    ])
}

/// Returns the ratios of `on` to `off`, median by median.
fn ratios(load: &Load, ran: &[Vec<Measurement>; MODES.len()]) -> [Row; 3] {
    let label = format!("{}/napi=on", load.label());
    let row = |what, figure: &dyn Fn(&Measurement) -> f64| {
        let [off, _, on] = ran.each_ref().map(|ran| median(ran.iter().map(figure).collect()));
        Row::new(&label, what, (on / off * 1e6) as i64, RowKind::Measured)
    };
    [
        row(("rate_of_off", "times"), &|ran| ran.messages as f64 / ran.seconds),
        row(("p50_of_off", "times"), &|ran| ran.p50_ns as f64),
        row(("p99_of_off", "times"), &|ran| ran.p99_ns as f64),
    ]
}

/// Distance of frames in bytes: a long message fits into one.
const FRAME_BYTES: u32 = 5120;

/// The settings of all runs.
pub(super) struct Rig {
    pub(super) guest_pool: PagePool,
    pub(super) far_pool: PagePool,
    pub(super) poller: poller::Settings,
    pub(super) settings: Settings,
    pub(super) measure: Duration,
}

/// The parameters of all runs.
#[derive(Deserialize)]
pub(super) struct Settings {
    pool_frames: u32,
    spin: bool,
    pub(super) ring: u64,
    pub(super) pin: bool,
    pub(super) window_bytes: u64,
    pub(super) window_packets: u64,
    pub(super) burst_packets: usize,
    pub(super) rounds: u64,
    pub(super) long_bytes: u32,
    pub(super) settle_ms: u64,
}

impl Rig {
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self, LabError> {
        let settings: Settings = bench.parameters.read_into()?;
        let frames = settings.pool_frames;
        let pool = || host::pool(PagePool::builder().frames(frames).frame_bytes(FRAME_BYTES));
        let mode = if settings.spin { Mode::Adaptive } else { Mode::Sleeping };
        Ok(Self {
            guest_pool: pool()?,
            far_pool: pool()?,
            poller: poller::Settings { mode, ..poller::Settings::default() },
            settings,
            measure: host::measure_time(bench)?,
        })
    }
}
