//! World model: guest, vhost and peer of [`virtio_guest`](crate::models::virtio_guest), the whole published
//! table.
//!
//! The parameters marked fitted were chosen together, by the figures of `upstream` and by usual costs; the same numbers
//! predict `napi`. The table's head has the skill of its effects against "nothing changes". Figures are medians of runs
//! that differ in their seed, as published. `peer_window_bytes`, `cache_flows` and `halt_poll_ns` were chosen with
//! `napi` in view: the file says so of each.

use super::super::row::{add_point, median, scaled};
use super::super::{Bench, LabError, Parameters, Row, RowKind, Series};
use crate::models::virtio_guest::{self, Costs, Outcome, Release, Setup, Traffic};
use wharf_sim::flows::tcp::Rules;

const FLOWS: [usize; 3] = [1, 10, 100];
/// A figure of a run: its name and unit, the end of its key in the published
/// table, and its millionths.
struct Figure {
    metric: (&'static str, &'static str),
    key: &'static str,
    of: fn(&Outcome, &Parameters) -> Result<u64, LabError>,
}

const RATE: Figure = Figure { metric: ("rate", "Mbit/s"), key: "mbps", of: rate };
const CYCLES: Figure = Figure { metric: ("processors", "Gcycles"), key: "gcycles", of: cycles };
const PACKET: Figure = Figure { metric: ("packet", "bytes"), key: "bytes_per_packet", of: packet };
const P50: Figure = Figure { metric: ("p50", "us"), key: "p50_us", of: p50 };
const P99: Figure = Figure { metric: ("p99", "us"), key: "p99_us", of: p99 };

/// A traffic and its figures.
struct Test {
    name: &'static str,
    traffic: fn(&Parameters) -> Result<Traffic, LabError>,
    figures: &'static [Figure],
}

const TESTS: [Test; 5] = [
    Test {
        name: "tcp_stream",
        traffic: |parameters| Ok(Traffic::TcpStream { write_bytes: parameters.get("write_bytes")? as u32 }),
        figures: &[RATE, CYCLES, PACKET],
    },
    Test {
        name: "tcp_rr",
        traffic: |_| Ok(Traffic::Requests { bytes: 1, tcp: true }),
        figures: &[P50, P99, CYCLES],
    },
    Test {
        name: "tcp_rr_4k",
        traffic: |_| Ok(Traffic::Requests { bytes: 4096, tcp: true }),
        figures: &[P50, P99, CYCLES],
    },
    Test {
        name: "udp_stream",
        traffic: |parameters| {
            Ok(Traffic::UdpStream { datagram_bytes: parameters.get("datagram_bytes")? as u32 })
        },
        figures: &[RATE, CYCLES],
    },
    Test {
        name: "udp_rr",
        traffic: |_| Ok(Traffic::Requests { bytes: 1, tcp: false }),
        figures: &[P50, P99, CYCLES],
    },
];

fn rate(outcome: &Outcome, _: &Parameters) -> Result<u64, LabError> {
    Ok(outcome.bits_per_s())
}

fn packet(outcome: &Outcome, _: &Parameters) -> Result<u64, LabError> {
    Ok(scaled(outcome.data_bytes, 1_000_000, outcome.data_packets) as u64)
}

fn p50(outcome: &Outcome, _: &Parameters) -> Result<u64, LabError> {
    Ok(outcome.answered_within_ns(500) * 1000)
}

fn p99(outcome: &Outcome, _: &Parameters) -> Result<u64, LabError> {
    Ok(outcome.answered_within_ns(990) * 1000)
}

/// Returns the cycles of all processors over the published run. Neither its length nor its clock was
/// published: only their product matters.
fn cycles(outcome: &Outcome, parameters: &Parameters) -> Result<u64, LabError> {
    let mega = u128::from(parameters.get("processor_run_mcycles")?);
    Ok((u128::from(outcome.busy_ns) * mega * 1000 / u128::from(outcome.measured_ns.max(1))) as u64)
}

/// Returns the column of a release.
fn name_of(release: Release) -> &'static str {
    match release {
        Release::Upstream => "upstream",
        Release::Timer { .. } => "timer",
        Release::Napi => "napi",
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let figures = bench.published;
    for test in &TESTS {
        for (at, flows) in FLOWS.into_iter().enumerate() {
            let timer = Release::Timer { every_ns: bench.parameters.get("timer_every_ns")? };
            let [upstream, timer, napi] = [Release::Upstream, timer, Release::Napi].map(|release| {
                let label = format!("{}/flows={flows}/{}", test.name, name_of(release));
                runs(bench, test, flows, release, &label).map(|outcomes| (label, outcomes))
            });
            let (upstream, timer, napi) = (upstream?, timer?, napi?);
            for what in test.figures {
                let [before, without, after] =
                    [&upstream, &timer, &napi].map(|(_, all)| middle(all, what, bench.parameters));
                let (before, without, after) = (before?, without?, after?);
                let published = |column: &str| {
                    figures.figure(&format!("tx_napi.{}_{}.{column}.{at}", test.name, what.key))
                };
                let upstream =
                    fitted(bench.parameters, row(&upstream.0, what, before), published("upstream")?);
                let napi = row(&napi.0, what, after);
                let napi = match published("napi") {
                    Ok(figure) => napi.beside(figure).effect_over(&upstream),
                    // The column's label is another: completions cleaned from the receive side.
                    Err(_) => napi.saying(&format!("{:.0} were published of \"at_rx\"", published("at_rx")?)),
                };
                bench.rows.extend([upstream, row(&timer.0, what, without), napi]);
            }
            for (label, outcomes) in [&upstream, &timer, &napi] {
                bench.rows.push(interrupts(label, outcomes));
            }
        }
    }
    bench.series.extend(series(&bench.rows));
    Ok(())
}

fn row(label: &str, what: &Figure, millionths: u64) -> Row {
    let row = Row::new(label, what.metric, millionths as i64, RowKind::Predicted);
    if millionths == 0 { row.saying("nothing came through in the time measured") } else { row }
}

/// Notes the residual of a row of `upstream`, to which the parameters were fitted all together.
fn fitted(parameters: &Parameters, row: Row, published: f64) -> Row {
    let row = row.beside(published);
    Row { kind: parameters.fit(&["carry_ns"]), ..row }
}

/// Returns the row of the transmit ring's interrupts per packet.
fn interrupts(label: &str, outcomes: &[Outcome]) -> Row {
    let per_s = |outcome: &Outcome| {
        u128::from(outcome.transmit_interrupts) * 1_000_000_000_000_000
            / u128::from(outcome.measured_ns.max(1))
    };
    let sum: u128 = outcomes.iter().map(per_s).sum();
    let mean = sum / (outcomes.len() as u128).max(1);
    Row::new(label, ("transmit_interrupts", "per second"), mean as i64, RowKind::Predicted)
}

/// Returns the bits per second over flows, a line for each release, and the published ones of two of them.
fn series(rows: &[Row]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| matches!(row.metric, "rate" | "p50")) {
        let mut parts = row.label.split('/');
        let (Some(test), Some(flows), Some(release)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let flows: f64 = flows.trim_start_matches("flows=").parse().unwrap_or(0.0);
        let chart = format!("{test}: {} over flows", row.metric);
        let published = row.published.map(|published| (format!("{release}, published"), published));
        for (line, value) in [(release.to_string(), row.value)].into_iter().chain(published) {
            let at = (chart.clone(), line, "flows, power of ten", row.unit);
            add_point(&mut all, at, (flows.log10(), value));
        }
    }
    all
}

fn middle(outcomes: &[Outcome], what: &Figure, parameters: &Parameters) -> Result<u64, LabError> {
    let figures = outcomes.iter().map(|outcome| (what.of)(outcome, parameters));
    Ok(median(figures.collect::<Result<_, _>>()?))
}

fn runs(
    bench: &mut Bench<'_>, test: &Test, flows: usize, release: Release, label: &str,
) -> Result<Vec<Outcome>, LabError> {
    let parameters = bench.parameters;
    let traffic = (test.traffic)(parameters)?;
    let setup = |seed| setup(parameters, traffic, flows, release, seed);
    let outcomes = bench.runs(label, setup, virtio_guest::run)?;
    bench.packets += outcomes.iter().map(|outcome| outcome.packets_in_all).sum::<u64>();
    Ok(outcomes)
}

fn setup(
    parameters: &Parameters, traffic: Traffic, flows: usize, release: Release, seed: u64,
) -> Result<Setup, LabError> {
    let get = |key: &str| parameters.get(key);
    let buffer = if matches!(traffic, Traffic::UdpStream { .. }) {
        "datagram_buffer_bytes"
    } else {
        "send_buffer_bytes"
    };
    Ok(Setup {
        release,
        traffic,
        flows,
        rules: Rules {
            small_queue_bytes_max: Some(get("small_queue_bytes_max")?),
            peer_window_bytes: get("peer_window_bytes")?,
            ..Rules::default()
        },
        send_buffer_bytes: get(buffer)?,
        receive_buffer_bytes: get("datagram_buffer_bytes")?,
        ring_descriptors: get("ring_descriptors")? as u16,
        qdisc_packets: get("qdisc_packets")? as usize,
        costs: costs(parameters, traffic)?,
        time: parameters.timing(seed)?,
    })
}

fn costs(parameters: &Parameters, traffic: Traffic) -> Result<Costs, LabError> {
    let udp = matches!(traffic, Traffic::UdpStream { .. } | Traffic::Requests { tcp: false, .. });
    parameters.settings().of(if udp { "udp" } else { "tcp" }).read()
}
