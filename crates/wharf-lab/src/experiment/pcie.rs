//! `pcie`: what small packets cost on the bus of a ConnectX-5, 2019: compressed completions, multi-packet entries.
//!
//! One figure is fitted: the time that the NIC takes over one entry, to 70 Mpps sent back with an entry each. (For the
//! sockets' rows, the clock of that machine.) All others follow from the bytes that driver and NIC exchange.
//!
//! What is sent back or redirected is received with compressed completions, before and after, as the published runs
//! had it. Redirected packets leave at the other port of the same NIC. The published figure of 116 Mpps goes with
//! packets inside the entries: under `auto` the driver begins with that at 128 packets outstanding, which these runs
//! do not reach, since it is the way to the host that binds.

mod ran;

use super::published::figure;
use super::{Bench, Experiment, LabError, Parameters, Row, World};
use crate::engine::Random;
use crate::nic::cx5::compress::Compress;
use crate::nic::cx5::driver::Spec;
use crate::nic::cx5::setup::{Setup, build, build_slim, build_striding};
use crate::nic::cx5::{half, striding};
use crate::nic::machine::{CoreCosts, Job};
use crate::nic::port::{Arrivals, PortCosts};
use crate::nic::receive::ReceiveCosts;
use crate::nic::send::SendCosts;
use crate::pcie::{BusSpec, Link};
use ran::Ran;

/// The experiment.
#[derive(Debug)]
pub(super) struct Pcie;

const LINK: &str = "gen3x16,mps=256,mrrs=512,rcb=64";
const MPPS: (&str, &str) = ("mpps", "Mpps");
const GBPS: (&str, &str) = ("gbps", "Gbit/s of frames");
const TO_NIC: (&str, &str) = ("to_nic", "bytes on the bus per packet");
const TO_HOST: (&str, &str) = ("to_host", "bytes on the bus per packet");
const GAIN: (&str, &str) = ("gain", "percent");
const BUSIER: (&str, &str) = ("busier_way", "percent of the bus");

/// Lengths with checksum and how many of each: the usual mixture.
const IMIX: [(u32, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

impl Experiment for Pcie {
    fn name(&self) -> &'static str {
        "pcie"
    }

    fn what(&self) -> &'static str {
        "small packets on PCI Express, ConnectX-5: compressed completions, multi-packet entries, inlining"
    }

    fn parameters(&self, _: World) -> &'static str {
        include_str!("../../parameters/pcie.toml")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        for part in [drop, send_back, redirect, mixed, sockets, stack] {
            let rows = part(bench)?;
            bench.rows.extend(rows);
        }
        Ok(())
    }
}

/// What differs from run to run.
#[derive(Debug, Clone, Copy)]
struct Case {
    rx_cqe_compress: bool,
    xdp_tx_mpwqe: bool,
    inline: Inline,
    descriptors: Descriptors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Descriptors {
    /// As the driver has them.
    Mlx5,
    /// Received by strides.
    Striding,
    /// Sent by entries of 16 bytes.
    Slim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inline {
    Off,
    /// As the driver decides, by what is outstanding.
    Auto,
    Always,
}

const NOTHING: Case =
    Case { rx_cqe_compress: false, xdp_tx_mpwqe: false, inline: Inline::Off, descriptors: Descriptors::Mlx5 };
const COMPRESS: Case = Case { rx_cqe_compress: true, ..NOTHING };
const MULTI: Case = Case { xdp_tx_mpwqe: true, ..COMPRESS };

/// Received and dropped.
fn drop(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let off = one(bench, "xdp_drop/rx_cqe_compress=off", Work::Drop, NOTHING)?;
    let on = one(bench, "xdp_drop/rx_cqe_compress=on", Work::Drop, COMPRESS)?;
    let striding = Case { descriptors: Descriptors::Striding, ..COMPRESS };
    let striding = one(bench, "xdp_drop/rx_cqe_compress=on,rx_striding_rq=on", Work::Drop, striding)?;
    let published = |key: &str| figure(&format!("pcie.{key}"));
    let gain = (published("xdp_drop_mpps.after")? / published("xdp_drop_mpps.before")? - 1.0) * 100.0;
    Ok(vec![
        off.mpps().beside(published("xdp_drop_mpps.before")?),
        off.row(TO_HOST, off.to_host_millionths()),
        read_as(on.mpps().beside(published("xdp_drop_mpps.after")?), (130.0, 135.0)),
        on.row(TO_HOST, on.to_host_millionths()),
        on.gain_over(&off).beside((gain * 10.0).round() / 10.0),
        striding.mpps(),
        striding.row(TO_NIC, striding.to_nic_millionths()),
        striding.row(TO_HOST, striding.to_host_millionths()),
    ])
}

/// Received and sent back; the same completions before and after.
fn send_back(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = one(bench, "xdp_tx/xdp_tx_mpwqe=off", Work::SendBack, COMPRESS)?;
    let pointers = one(bench, "xdp_tx/xdp_tx_mpwqe=on,inline=off", Work::SendBack, MULTI)?;
    let auto = Case { inline: Inline::Auto, ..MULTI };
    let auto = one(bench, "xdp_tx/xdp_tx_mpwqe=on,inline=auto", Work::SendBack, auto)?;
    let always = Case { inline: Inline::Always, ..MULTI };
    let always = one(bench, "xdp_tx/xdp_tx_mpwqe=on,inline=always", Work::SendBack, always)?;
    let slim = Case { descriptors: Descriptors::Slim, ..COMPRESS };
    let slim = one(bench, "xdp_tx/tx_metadata_in_buffer=on", Work::SendBack, slim)?;
    let gain = figure("pcie.xdp_tx_gain_percent")?;
    let fitted = Row { kind: bench.parameters.fit(&["entry_ps"]), ..before.mpps() }.beside(70.0);
    Ok(vec![
        fitted,
        before.row(TO_NIC, before.to_nic_millionths()),
        read_as(pointers.mpps().beside(figure("pcie.xdp_tx_milestone_mpps")?), (100.0, 116.0)),
        pointers.row(TO_NIC, pointers.to_nic_millionths()),
        pointers.gain_over(&before).beside(gain),
        read_as(auto.mpps().beside(116.0), (100.0, 116.0)),
        auto.gain_over(&before).beside(gain),
        read_as(always.mpps().beside(116.0), (100.0, 116.0)),
        always.row(TO_NIC, always.to_nic_millionths()),
        always.row(TO_HOST, always.to_host_millionths()),
        always.gain_over(&before).beside(gain),
        slim.mpps(),
        slim.row(TO_NIC, slim.to_nic_millionths()),
    ])
}

/// Received at one port and sent at the other of one NIC.
fn redirect(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = one(bench, "xdp_redirect/xdp_tx_mpwqe=off", Work::Redirect, COMPRESS)?;
    let auto = Case { inline: Inline::Auto, ..MULTI };
    let after = one(bench, "xdp_redirect/xdp_tx_mpwqe=on,inline=auto", Work::Redirect, auto)?;
    let published = |key: &str| figure(&format!("pcie.xdp_redirect_mpps.{key}"));
    let gain = (published("after")? / published("before")? - 1.0) * 100.0;
    Ok(vec![
        before.mpps().beside(published("before")?),
        read_as(after.mpps().beside(published("after")?), (92.0, 92.0)),
        after.gain_over(&before).beside((gain * 10.0).round() / 10.0),
    ])
}

/// Packets of several sizes: what is saved matters less.
fn mixed(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let auto = Case { inline: Inline::Auto, ..MULTI };
    for (label, case) in [("imix/xdp_tx/all=off", NOTHING), ("imix/xdp_tx/all=on", auto)] {
        let ran = one(bench, label, Work::Mixed, case)?;
        rows.extend([
            ran.mpps(),
            ran.row(GBPS, ran.bits_millionths()),
            ran.row(BUSIER, ran.busier_millionths()),
        ]);
    }
    Ok(rows)
}

/// One stream through sockets: the processor binds, and what multi-packet entries save is its time.
fn sockets(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = one(bench, "socket-1/skb_tx_mpwqe=off", Work::Socket, NOTHING)?;
    let after = Case { xdp_tx_mpwqe: true, ..NOTHING };
    let after = one(bench, "socket-1/skb_tx_mpwqe=on", Work::Socket, after)?;
    Ok(vec![
        // Both figures: mlx5 skb_tx_mpwqe commit series, 2020.
        Row { kind: bench.parameters.fit(&["socket_clock_khz"]), ..before.mpps() }.beside(16.96),
        before.row(TO_NIC, before.to_nic_millionths()),
        after.mpps().beside(20.94),
        after.row(TO_NIC, after.to_nic_millionths()),
    ])
}

/// What the audience asked: does it matter under the whole stack? All processors receive through it.
fn stack(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let off = one(bench, "stack/rx_cqe_compress=off", Work::Stack, NOTHING)?;
    let on = one(bench, "stack/rx_cqe_compress=on", Work::Stack, COMPRESS)?;
    Ok(vec![
        off.mpps(),
        off.row(BUSIER, off.busier_millionths()),
        on.mpps(),
        on.row(BUSIER, on.busier_millionths()),
        on.gain_over(&off),
    ])
}

/// Says where a prediction lies beside what can be read out of the sources.
fn read_as(row: Row, (least, most): (f64, f64)) -> Row {
    let range = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    let off = if row.value < least { row.value / least - 1.0 } else { row.value / most - 1.0 };
    let note = if (least..=most).contains(&row.value) {
        format!("within what was published, {range}")
    } else {
        format!("{:+.1} % from what was published, {range}", off * 100.0)
    };
    Row { note: Some(note), ..row }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Drop,
    SendBack,
    Redirect,
    Mixed,
    Socket,
    Stack,
}

impl Work {
    fn job(self, parameters: &Parameters) -> Result<Job, LabError> {
        let get = |key: &str| parameters.get(key);
        Ok(match self {
            Self::Drop | Self::Stack => Job::Drop,
            Self::SendBack | Self::Mixed => {
                Job::SendBack { per_doorbell: get("xdp_tx_per_doorbell")? as usize }
            }
            Self::Redirect => Job::SendBack { per_doorbell: get("redirect_per_doorbell")? as usize },
            Self::Socket => Job::Send {
                len_bytes: get("packet_bytes")? as u32,
                per_doorbell: get("socket_per_doorbell")? as usize,
            },
        })
    }

    fn packet_ps(self, parameters: &Parameters, multi: bool) -> Result<u64, LabError> {
        let get = |key: &str| parameters.get(key);
        match self {
            Self::Drop => get("drop_ps"),
            Self::SendBack | Self::Mixed => get("send_back_ps"),
            Self::Redirect => get("redirect_ps"),
            Self::Stack => get("stack_ps"),
            Self::Socket => {
                let cycles = get(if multi { "socket_mpwqe_cycles" } else { "socket_cycles" })?;
                Ok(cycles * 1_000_000_000 / get("socket_clock_khz")?)
            }
        }
    }
}

fn setup(bench: &Bench<'_>, work: Work, case: Case) -> Result<Setup, LabError> {
    let parameters = bench.parameters;
    let get = |key: &str| parameters.get(key);
    let queues = if work == Work::Socket { 1 } else { get("queues")? as usize };
    let (wire_ps_per_byte, wire_overhead_bytes) = (get("wire_ps_per_byte")?, get("wire_overhead_bytes")?);
    let sizes = if work == Work::Mixed { IMIX.to_vec() } else { vec![(get("packet_bytes")? as u32, 1)] };
    let random = Random::new(bench.seed);
    let arrivals = match work {
        Work::Socket => Arrivals::none(),
        _ => Arrivals::at_wire_rate(sizes, queues, wire_ps_per_byte, wire_overhead_bytes, random),
    };
    let inline_from = match case.inline {
        Inline::Off => None,
        Inline::Auto => Some(get("inline_from_packets")? as usize),
        Inline::Always => Some(0),
    };
    let session_max = get("session_packets")? as u32;
    let (selected, receive_ring) = match case.descriptors {
        Descriptors::Striding => (striding::SELECTED, "striding_completions_log"),
        _ => (half::SELECTED, "receive_ring_log"),
    };
    Ok(Setup {
        queues,
        spec: Spec {
            log_send_blocks: get("send_ring_log")? as u32,
            log_receive: get(receive_ring)? as u32,
            xdp_tx_mpwqe: case.xdp_tx_mpwqe,
            inline_from,
            completion_each: false,
        },
        rx_cqe_compress: case.rx_cqe_compress.then_some(Compress { selected, session_max }),
        port: port_costs(parameters)?,
        arrivals,
        job: work.job(parameters)?,
        cores: CoreCosts {
            poll_ps: if work == Work::Socket { 0 } else { get("poll_ps")? },
            packet_ps: work.packet_ps(parameters, case.xdp_tx_mpwqe)?,
            wake_ps: get("wake_ps")?,
        },
    })
}

fn port_costs(parameters: &Parameters) -> Result<PortCosts, LabError> {
    let get = |key: &str| parameters.get(key);
    let fault =
        |error: crate::pcie::LinkError| LabError::File { file: "pcie.toml".into(), what: error.to_string() };
    Ok(PortCosts {
        bus: BusSpec {
            link: LINK.parse::<Link>().map_err(fault)?,
            tags: get("tags")? as u32,
            latency_ps: get("latency_ns")? * 1000,
        },
        send: SendCosts {
            entry_ps: get("entry_ps")?,
            fetch_bytes: get("fetch_bytes")? as u32,
            fetches: get("fetches")? as usize,
            wire_ps_per_byte: get("wire_ps_per_byte")?,
            wire_overhead_bytes: get("wire_overhead_bytes")?,
            ahead_ps: get("ahead_ps")?,
        },
        receive: ReceiveCosts {
            buffer_bytes: get("nic_buffer_bytes")?,
            fetch_bytes: get("fetch_bytes")? as u32,
            keep_ps: get("session_ns")? * 1000,
        },
    })
}

fn one(bench: &mut Bench<'_>, label: &'static str, work: Work, case: Case) -> Result<Ran, LabError> {
    let setup = setup(bench, work, case)?;
    let settle = if work == Work::Stack { "stack_settle_ns" } else { "settle_ns" };
    let sent = !matches!(work, Work::Drop | Work::Stack);
    match case.descriptors {
        Descriptors::Mlx5 => Ran::new(bench, label, setup, settle, sent, build),
        Descriptors::Striding => Ran::new(bench, label, setup, settle, sent, build_striding),
        Descriptors::Slim => Ran::new(bench, label, setup, settle, sent, build_slim),
    }
}
