//! All cases, and their rows.

use super::super::row::{add_point, scaled};
use super::super::{Bench, LabError, Row, RowKind, Series};
use super::model::{Case, Nic, Protocol, Sums, Switch, runs};

const PROCESSES: [usize; 4] = [1, 4, 16, 64];
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::TcpNoDelay, Protocol::Udp];
const MESSAGE_BYTES: [u64; 5] = [32, 128, 512, 4096, 16384];
const REQUEST_BYTES: u64 = 64;
/// The parameters with the processors of the two machines: the published ranges are over both.
const MACHINES: [&str; 2] = ["cpus", "power5_cpus"];
const CASE: Case = Case {
    nic: Nic::Ipoib,
    protocol: Protocol::Tcp,
    processes: 1,
    cpus: 2,
    message_bytes: 32,
    switch: Switch::Off,
    errors_ppm: 0,
};
/// Gains that differ by less, in percent, count as the same.
const POINTS: f64 = 5.0;

const BANDWIDTH: (&str, &str) = ("bandwidth", "Mbit/s");
const GAIN: (&str, &str) = ("bandwidth_by_batching", "percent");
const DEMAND: (&str, &str) = ("service_demand_by_batching", "percent");
const TRANSACTIONS: (&str, &str) = ("transactions_by_batching", "percent");
/// The greatest change that counts as small where a source has words in place of a figure.
const SMALL_PERCENT: f64 = 10.0;
const MOST: (&str, &str) = ("bandwidth_by_batching_most", "percent");

/// A note for rows without a comparison.
const NOTHING: &str = "nothing was sent in the time measured: no change to be told";

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    for nic in [Nic::Ipoib, Nic::E1000] {
        for processes in PROCESSES {
            let (mut gains, first) = (Vec::new(), bench.rows.len());
            for machine in MACHINES {
                let cpus = bench.parameters.get(machine)? as usize;
                let case = Case { nic, processes, cpus, ..CASE };
                gains.extend(messages(bench, case)?);
                requests(bench, Case { protocol: Protocol::Requests, message_bytes: REQUEST_BYTES, ..case })?;
            }
            ranges(bench, nic, processes, &gains)?;
            if (nic, processes) == (Nic::Ipoib, 1) {
                bench.rows.extend(in_words(&bench.rows[first..]));
            }
        }
    }
    for protocol in [Protocol::TcpNoDelay, Protocol::Udp] {
        errors(bench, protocol)?;
    }
    let series = series(&bench.rows);
    bench.series.extend(series);
    Ok(())
}

/// Runs all protocols and messages. Returns the gains of TCP.
fn messages(bench: &mut Bench<'_>, case: Case) -> Result<Vec<i64>, LabError> {
    let mut gains = Vec::new();
    for protocol in PROTOCOLS {
        for message_bytes in MESSAGE_BYTES {
            let gain = bandwidths(bench, Case { protocol, message_bytes, ..case })?;
            gains.extend(gain.filter(|_| protocol != Protocol::Udp));
        }
    }
    Ok(gains)
}

/// Runs one case with all switches. Returns the gain of batching in millionths of a percent, if there is a
/// baseline.
fn bandwidths(bench: &mut Bench<'_>, case: Case) -> Result<Option<i64>, LabError> {
    let [off, on, wake] =
        [Switch::Off, Switch::On, Switch::OnWake].map(|switch| runs(bench, &Case { switch, ..case }));
    let (off, on, wake) = (off?, on?, wake?);
    let label = case.label();
    let row = |what, millionths| Row::new(&label, what, millionths, RowKind::Predicted);
    let gain = change(rate(&on), rate(&off));
    let bandwidth = row(BANDWIDTH, rate(&off) as i64);
    bench.rows.push(if gain.is_none() { bandwidth.saying(NOTHING) } else { bandwidth });
    // A run that sent nothing has no time per byte.
    let by_demand = gain.filter(|_| on.payload_bytes > 0).and_then(|_| change(demand(&on), demand(&off)));
    let changes = [
        (GAIN, gain),
        (("bandwidth_by_batching_on_wake", "percent"), change(rate(&wake), rate(&off))),
        (DEMAND, by_demand),
    ];
    bench.rows.extend(changes.into_iter().filter_map(|(what, change)| Some(row(what, change?))));
    bench.rows.push(row(("packets_per_call", "packets"), (on.given * 1_000_000 / on.calls.max(1)) as i64));
    Ok(gain)
}

/// Returns the payload that left, in bits per second.
fn rate(sums: &Sums) -> u64 {
    scaled(sums.payload_bytes, 8_000_000_000, sums.measured_ns) as u64
}

/// Returns the processor time per byte, in femtoseconds.
fn demand(sums: &Sums) -> u64 {
    scaled(sums.busy_ns, 1_000_000, sums.payload_bytes) as u64
}

/// Returns the change from `before` to `now` in millionths of a percent, or `None` if `before` is 0.
fn change(now: u64, before: u64) -> Option<i64> {
    let more = (i128::from(now) - i128::from(before)) * 100_000_000;
    more.checked_div(i128::from(before)).map(|change| change as i64)
}

/// Adds the least and the greatest gain over all messages by TCP, beside the published figures.
fn ranges(bench: &mut Bench<'_>, nic: Nic, processes: usize, gains: &[i64]) -> Result<(), LabError> {
    let label = format!("{}/tcp+tcp-nodelay/processes={processes}", nic.name());
    let ends = [gains.iter().min(), gains.iter().max()];
    for (at, (what, gain)) in
        [("bandwidth_by_batching_least", "percent"), MOST].into_iter().zip(ends).enumerate()
    {
        let Some(&gain) = gain else { continue };
        let kind = match (nic, processes, what) {
            (Nic::Ipoib, 1, MOST) => bench.parameters.fit(&["ipoib_serve_ps"]),
            _ => RowKind::Predicted,
        };
        let row = Row::new(&label, what, gain, kind);
        bench.rows.push(match nic {
            Nic::Ipoib => {
                let key = format!("batching_api.tcp_processes_{processes}_percent.{at}");
                beside(row, bench.published.figure(&key)?).is_effect()
            }
            Nic::E1000 if row.value.abs() > POINTS => {
                row.saying("not reproduced: no gain was published, without figures")
            }
            Nic::E1000 => row.saying("no gain was published, without figures"),
        });
    }
    Ok(())
}

/// Returns rows for the changes of one process that were published in words: UDP's bandwidth and service demand, and the
/// rate of transactions. A change is small up to [`SMALL_PERCENT`], and big beyond.
fn in_words(rows: &[Row]) -> Vec<Row> {
    let greatest = |of: &str, metric: &str| {
        let values = rows.iter().filter(|row| row.metric == metric && row.label.contains(of));
        values.map(|row| row.value).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
    };
    let small = |percent: f64| percent.abs() <= SMALL_PERCENT;
    let row = |protocol: &str, metric, of: &str, holds: &dyn Fn(f64) -> bool, words: &str| {
        let value = greatest(&format!("/{protocol}/"), of);
        let verdict = if holds(value) { "" } else { "not reproduced: " };
        let label = format!("ipoib/{protocol}/processes=1");
        Row::new(&label, (metric, "percent"), (value * 1e6).round() as i64, RowKind::Predicted)
            .saying(&format!("{verdict}published as \"{words}\", without a figure"))
    };
    vec![
        row(
            "udp",
            MOST.0,
            GAIN.0,
            &|percent| small(percent) && percent >= 0.0,
            "small increase in bandwidth",
        ),
        row(
            "udp",
            "service_demand_by_batching_most",
            DEMAND.0,
            &|percent| percent < -SMALL_PERCENT,
            "big improvement in service demand",
        ),
        row(
            "tcp-requests",
            "transactions_by_batching_most",
            TRANSACTIONS.0,
            &|percent| small(percent) && percent <= 0.0,
            "small drop in transaction rate",
        ),
    ]
}

/// Sets a gain beside a published one. The residual is in points, since gains lie around 0.
fn beside(row: Row, published: f64) -> Row {
    let off = row.value - published;
    let far = off.abs() > POINTS && !(published / 2.0..=published * 2.0).contains(&row.value);
    let row = row.beside_in_points(published);
    if far { row.saying("not reproduced: off by more than 5 points and a factor of 2") } else { row }
}

/// Adds the transactions per second without batching, and the change with it.
fn requests(bench: &mut Bench<'_>, case: Case) -> Result<(), LabError> {
    let [off, on] = [Switch::Off, Switch::On].map(|switch| runs(bench, &Case { switch, ..case }));
    let per_s = |sums: &Sums| scaled(sums.packets, 1_000_000_000, sums.measured_ns) as u64;
    let (off, on) = (per_s(&off?), per_s(&on?));
    let row = |what, millionths| Row::new(&case.label(), what, millionths, RowKind::Predicted);
    let (rate, change) = (row(("transactions", "per second"), off as i64 * 1_000_000), change(on, off));
    bench.rows.push(if change.is_none() { rate.saying(NOTHING) } else { rate });
    bench.rows.extend(change.map(|change| row(TRANSACTIONS, change)));
    Ok(())
}

/// Runs a driver that fails. The run itself checks that all other packets left, once and in order.
fn errors(bench: &mut Bench<'_>, protocol: Protocol) -> Result<(), LabError> {
    let errors_ppm = bench.parameters.get("errors_ppm")? as u32;
    for switch in [Switch::Off, Switch::On] {
        let cpus = bench.parameters.get(MACHINES[0])? as usize;
        let case = Case { protocol, processes: 4, cpus, message_bytes: 512, switch, errors_ppm, ..CASE };
        let sums = runs(bench, &case)?;
        let label =
            format!("{}/errors/batching={}", case.label(), if switch == Switch::On { "on" } else { "off" });
        let share = sums.failed * 100_000_000 / (sums.packets + sums.failed).max(1);
        let row = Row::new(&label, ("failed", "percent of packets"), share as i64, RowKind::Predicted);
        bench.rows.push(row.saying("accepted is sent and failed; what was sent left once, in order"));
        bench.rows.push(Row::new(&label, BANDWIDTH, rate(&sums) as i64, RowKind::Predicted));
    }
    Ok(())
}

/// Returns the gains over the size of messages, a picture for each NIC and number of processes.
fn series(rows: &[Row]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == GAIN.0) {
        let parts: Vec<&str> = row.label.split('/').collect();
        let [nic, protocol, processes, cpus, size] = parts[..] else { continue };
        let chart = format!("{nic}, {processes}, {cpus}: bandwidth by batching");
        let bytes: f64 = size.trim_start_matches("size=").parse().unwrap_or(1.0);
        let at = (chart, protocol.to_string(), "message, power of two of bytes", "percent");
        add_point(&mut all, at, (bytes.log2(), row.value));
    }
    all
}
