//! `pcie`: the cost of small packets on the bus of a ConnectX-5, 2019: compressed completions, multi-packet
//! entries.
//!
//! Two figures are fitted: the packets whose writes are posted at a time, to 70 Mpps sent back with an entry
//! each, and the end of sessions of compressed completions, to 130 Mpps dropped. For the rows of sockets,
//! measured on another machine, two more: its clock, to one stream's rate, and the reads that its NIC has
//! under way, to the highest rate of 24 processors. All others follow from the bytes that driver and NIC
//! exchange.
//!
//! Packets sent back or redirected are received with compressed completions, before and after, as in the
//! published runs. Redirected packets leave at the other port of the same NIC. The published chart can be
//! read as 100 or 116 Mpps; 116 fits inlined packets. Under `auto` the driver begins with that at 128
//! outstanding packets. Read requests wait behind the writes of packets received, since a read does not pass
//! a posted write; so packets outstanding reach that number.

mod case;
mod measurement;

use super::{Bench, Experiment, LabError, Row, World};
use case::{Case, Descriptors, Inline, Work};
use measurement::Measurement;

const TO_NIC: (&str, &str) = ("to_nic", "bytes on the bus per packet");
const TO_HOST: (&str, &str) = ("to_host", "bytes on the bus per packet");
const TO_NIC_SHARE: (&str, &str) = ("to_nic_share", "percent of the bus");
const BUSIER: (&str, &str) = ("busier_way", "percent of the bus");

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pcie",
    what: "small packets on PCI Express, ConnectX-5: compressed completions, multi-packet entries, inlining",
    has_device: false,
    worlds: &[(World::Model, &[include_str!("../../scenarios/pcie.toml")], run)],
};

fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for part in [drop, send_back, redirect, sessions, mixed, socket, sockets, stack] {
        let rows = part(bench)?;
        bench.rows.extend(rows);
    }
    Ok(())
}

const SESSIONS: &str = "hangs on when sessions end, which is fitted: wharf plan has its best case of 64";

/// The least and the greatest reading of a published figure.
type Readings = (f64, f64);

/// Returns the gain from `before` to `after` in percent, to a tenth; none from 0.
fn gain(before: f64, after: f64) -> f64 {
    if before == 0.0 {
        return 0.0;
    }
    ((after / before - 1.0) * 1000.0).round() / 10.0
}

/// Sets `row` beside the published figure. Outside the readings, the bus's use is noted.
fn read(ran: &Measurement, row: Row, published: f64, (least, most): Readings) -> Row {
    let outside = !(least..=most).contains(&row.value);
    let row = row.read_as(published, least, most);
    if outside { row.saying(&ran.bus_use()) } else { row }
}

/// Adds the rows of packets received and dropped.
fn drop(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let off = Case::new(Work::Drop);
    let on = Case { rx_cqe_compress: true, ..off };
    let striding = Case { descriptors: Descriptors::Striding, ..on };
    let [off, on, striding] = [off.run(bench)?, on.run(bench)?, striding.run(bench)?];
    let published = |key: &str| bench.published.figure(&format!("pcie.{key}"));
    let (before, after) = (published("xdp_drop_mpps.before")?, published("xdp_drop_mpps.after")?);
    let milestone = published("xdp_drop_milestone_mpps")?;
    let kind = bench.parameters.fit(&["session_ns"]);
    Ok(vec![
        off.mpps().beside(before),
        off.row(TO_HOST, off.to_host_millionths()),
        Row { kind, ..read(&on, on.mpps(), after, (after, milestone)) }.saying(SESSIONS),
        on.row(TO_HOST, on.to_host_millionths()),
        Row {
            kind,
            ..read(
                &on,
                on.gain_over(&off),
                gain(before, after),
                (gain(before, after), gain(before, milestone)),
            )
        }
        .is_effect(),
        striding.mpps(),
        striding.row(TO_NIC, striding.to_nic_millionths()),
        striding.row(TO_HOST, striding.to_host_millionths()),
    ])
}

/// Adds the rows of packets received and sent back; the same completions before and after.
fn send_back(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = Case { rx_cqe_compress: true, ..Case::new(Work::SendBack) };
    let slim = Case { descriptors: Descriptors::Slim, ..before };
    let pointers = Case { xdp_tx_mpwqe: true, ..before };
    let [auto, always] = [Inline::Auto, Inline::Always].map(|inline| Case { inline, ..pointers });
    let [before, pointers, auto, always, slim] =
        [before.run(bench)?, pointers.run(bench)?, auto.run(bench)?, always.run(bench)?, slim.run(bench)?];
    let published = |key: &str| bench.published.figure(&format!("pcie.{key}"));
    let (one, milestone) = (published("xdp_tx_readings_mpps.1.0")?, published("xdp_tx_milestone_mpps")?);
    let (most, most_gain) = (published("xdp_tx_readings_mpps.1.1")?, published("xdp_tx_gain_percent")?);
    let readings = (milestone, most);
    let gained =
        |ran: &Measurement| read(ran, ran.gain_over(&before), most_gain, (gain(one, milestone), most_gain));
    let fitted = Row { kind: bench.parameters.fit(&["posted_packets"]), ..before.mpps() };
    Ok(vec![
        fitted.beside(one),
        before.row(TO_NIC, before.to_nic_millionths()),
        read(&pointers, pointers.mpps(), milestone, readings),
        pointers.row(TO_NIC, pointers.to_nic_millionths()),
        gained(&pointers),
        read(&auto, auto.mpps(), milestone, readings),
        gained(&auto).is_effect(),
        read(&always, always.mpps(), most, readings),
        always.row(TO_NIC, always.to_nic_millionths()),
        always.row(TO_HOST, always.to_host_millionths()),
        gained(&always),
        slim.mpps(),
        slim.row(TO_NIC, slim.to_nic_millionths()),
    ])
}

/// Adds the rows of packets received at one port and sent at the other of one NIC.
fn redirect(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = Case { rx_cqe_compress: true, ..Case::new(Work::Redirect) };
    let after = Case { xdp_tx_mpwqe: true, inline: Inline::Auto, ..before };
    let [before, after] = [before.run(bench)?, after.run(bench)?];
    let published = |key: &str| bench.published.figure(&format!("pcie.{key}"));
    let (was, is) = (published("xdp_redirect_mpps.before")?, published("xdp_redirect_mpps.after")?);
    Ok(vec![
        before.mpps().beside(was).saying("as xdp_tx: the model has nothing that redirecting makes slower"),
        after.mpps().beside(is),
        after.gain_over(&before).beside(gain(was, is)).is_effect(),
    ])
}

/// Adds the same with other ends of sessions, to show the weight of that assumption.
fn sessions(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let dropped = Case { rx_cqe_compress: true, ..Case::new(Work::Drop) };
    let sent_back = Case { work: Work::SendBack, xdp_tx_mpwqe: true, inline: Inline::Auto, ..dropped };
    let mut rows = Vec::new();
    for case in [dropped, sent_back] {
        for session in ["session_short_ns", "session_long_ns"] {
            rows.push(Case { session, ..case }.run(bench)?.mpps().saying(SESSIONS));
        }
    }
    Ok(rows)
}

/// Adds the rows of packets of several sizes: the saving matters less.
fn mixed(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let off = Case::new(Work::Mixed);
    let on = Case { rx_cqe_compress: true, xdp_tx_mpwqe: true, inline: Inline::Auto, ..off };
    for case in [off, on] {
        let ran = case.run(bench)?;
        rows.extend([
            ran.mpps(),
            ran.row(("gbps", "Gbit/s of frames"), ran.bits_millionths()),
            ran.row(BUSIER, ran.busier_millionths()),
        ]);
    }
    Ok(rows)
}

/// Adds the rows of one stream through sockets: the processor binds, and multi-packet entries save its time.
fn socket(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let before = Case::new(Work::Socket);
    let after = Case { xdp_tx_mpwqe: true, ..before };
    let [before, after] = [before.run(bench)?, after.run(bench)?];
    let published = |at: u32| bench.published.figure(&format!("mlx5_skb_tx_mpwqe.one_stream_mpps.{at}"));
    let fitted = Row { kind: bench.parameters.fit(&["socket_clock_khz"]), ..before.mpps() };
    let circular = "nearly circular: its clock is fitted, and its cycles a packet are published";
    let share = |ran: &Measurement| ran.row(TO_NIC_SHARE, ran.to_nic_share_millionths());
    Ok(vec![
        fitted.beside(published(0)?),
        before.row(TO_NIC, before.to_nic_millionths()),
        share(&before),
        after.mpps().beside(published(1)?).saying(circular),
        after.row(TO_NIC, after.to_nic_millionths()),
        share(&after),
    ])
}

/// Adds the rows of sockets on all processors: the share of the bus at a fixed rate, and the highest rate.
fn sockets(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for generation in [2, 3] {
        let figures = bench.published;
        let published = |key: &str| figures.figure(&format!("mlx5_skb_tx_mpwqe.gen{generation}.{key}"));
        let fixed_kpps = Some((published("fixed_mpps")? * 1000.0).round() as u64);
        for fixed_kpps in [fixed_kpps, None] {
            let before = Case::new(Work::Sockets { generation, fixed_kpps });
            let after = Case { xdp_tx_mpwqe: true, ..before };
            let [before, after] = [before.run(bench)?, after.run(bench)?];
            let of = |ran: &Measurement, at: u32| match fixed_kpps {
                Some(_) => Ok::<_, LabError>(
                    ran.row(TO_NIC_SHARE, ran.to_nic_share_millionths())
                        .beside(published(&format!("to_nic_share_percent.{at}"))?),
                ),
                None => Ok(ran.mpps().beside(published(&format!("full_rate_mpps.{at}"))?)),
            };
            let (mut before, after) = (of(&before, 0)?, of(&after, 1)?);
            if (generation, fixed_kpps) == (3, None) {
                before.kind = bench.parameters.fit(&["sockets_tags"]);
            }
            let after =
                if fixed_kpps.is_some() { after.points_over(&before) } else { after.effect_over(&before) };
            rows.extend([before, after]);
        }
    }
    Ok(rows)
}

/// Adds the answer to the audience's question: the effect under the whole stack. All processors receive
/// through it.
fn stack(bench: &mut Bench<'_>) -> Result<Vec<Row>, LabError> {
    let off = Case::new(Work::Stack);
    let on = Case { rx_cqe_compress: true, ..off };
    let [off, on] = [off.run(bench)?, on.run(bench)?];
    Ok(vec![
        off.mpps(),
        off.row(BUSIER, off.busier_millionths()),
        on.mpps(),
        on.row(BUSIER, on.busier_millionths()),
        on.gain_over(&off),
    ])
}
