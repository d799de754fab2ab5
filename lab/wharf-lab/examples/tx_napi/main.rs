//! `tx_napi [--json] [KEY=VALUE]...`, run by `bench/tx-napi.sh`: streams and round trips between a virtual machine's
//! queue (`virtio-user`) and a device (`vhost-user`) in one process, by the time at which transmitted buffers are freed.
//!
//! Each side has a thread. A further one is an application that sends by itself (UDP), in place of flows that
//! continue when answers are heard (TCP, as far as it decides when to send).
//!
//! The modes take turns in each round, and each figure is the median of the rounds. The published figures
//! beside are of another set-up: a virtual machine with Linux's driver and TCP, over vhost-net. `wharf lab run tx-napi`
//! models that one.

mod counts;
mod far;
mod flows;
mod load;
mod machine;
mod message;

use load::{FLOWS, Load, Work};
use machine::{AnyError, Measurement, Rig};
use std::io::{IsTerminal, stderr};
use wharf_lab::experiment::published::Published;
use wharf_lab::experiment::{Judgement, Parameters, Report, Row, RowKind, World, named};

/// The modes as in `virtio-user:SOCKET,napi=`, and their names in the published rows.
const MODES: [(&str, Option<&str>); 3] = [("off", Some("upstream")), ("timer", None), ("on", Some("napi"))];
const ANOTHER: &str = "published for another set-up: Linux's driver in a virtual machine over vhost-net";

fn main() -> Result<(), AnyError> {
    let (flags, set): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--json");
    let report = run(&set)?;
    if flags.is_empty() {
        report.rows.iter().for_each(|row| println!("{}", line(row)));
        println!("\nPublished figures: {ANOTHER}");
    } else {
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// Returns the row as a line: run, figure, value, published value, unit.
fn line(row: &Row) -> String {
    let published = row.published.map_or("-".to_string(), |published| format!("{published:.2}"));
    format!("{:<36} {:<22} {:>14.2} {published:>10}  {}", row.label, row.metric, row.value, row.unit)
}

/// Runs all loads, with these parameters set: `key=value`.
fn run(set: &[String]) -> Result<Report, AnyError> {
    let mut parameters = Parameters::read("tx-napi", include_str!("parameters.toml"))?;
    set.iter().try_for_each(|assignment| parameters.set(assignment))?;
    let rig = Rig::new(&parameters)?;
    let mut loads = Load::all(rig.settings.long_bytes);
    if let Some(only) = rig.settings.only_load.checked_sub(1) {
        loads = loads.into_iter().skip(only).take(1).collect();
    }
    let (mut rows, mut packets) = (Vec::new(), 0);
    for load in loads {
        let ran = rounds(&rig, &load)?;
        for ((napi, published), ran) in MODES.into_iter().zip(&ran) {
            packets += ran.iter().map(|ran| ran.messages).sum::<u64>();
            rows.extend(rows_of(&load, napi, published, ran)?);
        }
        rows.extend(ratios(&load, &ran));
    }
    Ok(Report {
        experiment: "tx-napi",
        world: World::Host,
        seed: 0,
        seeds: 1,
        judgement: Judgement::of(&rows, &parameters),
        parameters,
        rows,
        series: Vec::new(),
        interrupted: false,
        sources: Vec::new(),
        packets,
    })
}

/// Runs `load` in each mode by turns. Returns the rounds of each mode.
fn rounds(rig: &Rig, load: &Load) -> Result<[Vec<Measurement>; MODES.len()], AnyError> {
    let mut all = MODES.map(|_| Vec::new());
    for round in 1..=rig.settings.rounds {
        for ((napi, _), ran) in MODES.into_iter().zip(&mut all) {
            let name = format!("{}/napi={napi}, round {round}", load.label());
            if stderr().is_terminal() {
                eprintln!("{name} of {}", rig.settings.rounds);
            }
            ran.push(rig.run(load, napi).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    Ok(all)
}

/// Returns the medians of the rounds.
fn rows_of(
    load: &Load, napi: &str, published: Option<&str>, ran: &[Measurement],
) -> Result<[Row; 8], AnyError> {
    let label = format!("{}/napi={napi}", load.label());
    let row = |what, figure: &dyn Fn(&Measurement) -> f64| {
        Row::new(&label, what, (median(ran, figure) * 1e6) as i64, RowKind::Measured)
    };
    let beside = |row: Row, key: Option<&str>| -> Result<Row, AnyError> {
        let (Some(key), Some(which)) = (key, published) else { return Ok(row) };
        let at = FLOWS.iter().position(|&flows| flows == load.flows).unwrap_or(0);
        let all = Published::of(named("tx-napi")?)?;
        Ok(row.beside(all.figure(&format!("tx_napi.{key}.{which}.{at}"))?).saying(ANOTHER))
    };
    let payload_bytes = f64::from(load.payload_bytes);
    let (rate, p50, p99) = match load.work {
        Work::RoundTrip => (
            row(("round_trips", "per s"), &Measurement::per_second),
            ("round_trip_p50", "us"),
            ("round_trip_p99", "us"),
        ),
        Work::Stream => (
            row(("payload", "Mbit/s"), &|ran| ran.per_second() * payload_bytes * 8.0 / 1e6),
            ("wait_p50", "us"),
            ("wait_p99", "us"),
        ),
    };
    let [of_rate, of_p50, of_p99] = load.published();
    let per_message = |count: u64, ran: &Measurement| count as f64 / ran.whole.messages.max(1) as f64;
    Ok([
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
fn ratios(load: &Load, [off, _, on]: &[Vec<Measurement>; MODES.len()]) -> [Row; 3] {
    let label = format!("{}/napi=on", load.label());
    let row = |what, figure: &dyn Fn(&Measurement) -> f64| {
        let ratio = median(on, figure) / median(off, figure);
        Row::new(&label, what, (ratio * 1e6) as i64, RowKind::Measured)
    };
    [
        row(("rate_of_off", "times"), &Measurement::per_second),
        row(("p50_of_off", "times"), &|ran| ran.p50_ns as f64),
        row(("p99_of_off", "times"), &|ran| ran.p99_ns as f64),
    ]
}

/// Returns the median of a figure over the rounds, of an even number the greater of the two in the middle.
fn median(ran: &[Measurement], figure: &dyn Fn(&Measurement) -> f64) -> f64 {
    let mut values: Vec<f64> = ran.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests;
