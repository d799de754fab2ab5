//! `send/...`: senders over a NIC of several transmit queues. Other processors handle the completions, on
//! another core complex. Buffers go back to the allocator of the processor that frees them, as in the kernel
//! before 86b721bb0b4c, or to the cache that they came from.
//!
//! The time of a buffer under the allocator's lock is fitted to the published gain. The rest follows: what the
//! lock costs either side, and how often it is taken.

use super::super::{Bench, LabError, Row, RowKind};
use super::model::one;
use super::{LOCKS, MPPS, SPIN, ratio};
use crate::models::page_pool::{Outcome, PolicyKind, Setup};

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), LabError> {
    let mut pps = [0; 2];
    for (kind, pps) in [PolicyKind::Allocator, PolicyKind::Origin].into_iter().zip(&mut pps) {
        let label = format!("send/{}", kind.name());
        let setup = setup(bench, kind)?;
        let outcome = one(bench, &label, &setup)?;
        *pps = outcome.packets_per_s();
        bench.rows.extend(rows(&label, &outcome));
    }
    let gain = ratio(pps[1], pps[0]) * 100 - 100_000_000;
    let label = format!("send/{}", PolicyKind::Origin.name());
    let kind = bench.parameters.fit(&["send_locked_ps"]);
    let row = Row::new(&label, ("gain_over_allocator", "percent of Mpps"), gain, kind);
    let published = bench.published.figure("deferred_free.udp_send_gain_percent")?;
    bench.rows.push(row.beside_in_points(published).is_effect());
    Ok(())
}

/// A sender stands for a channel, and a processor that handles completions for an application.
fn setup(bench: &Bench<'_>, kind: PolicyKind) -> Result<Setup, LabError> {
    let parameters = bench.parameters;
    let senders = parameters.get("send_cpus")?;
    let settings = [
        ("channels", senders),
        ("applications", parameters.get("send_queues")?),
        ("streams", senders),
        ("slow_streams", 0),
        ("window_packets", parameters.get("send_window_packets")?),
        ("wire_bits_per_s", parameters.get("send_wire_bits_per_s")?),
        ("receive_ns", parameters.get("send_packet_ns")?),
        ("read_ns", parameters.get("send_complete_ns")?),
        ("depot_page_ps", parameters.get("send_locked_ps")?),
        ("seed", bench.seed),
    ];
    let settings = settings.into_iter().fold(parameters.settings(), |all, (key, value)| all.with(key, value));
    Ok(Setup { kind, ..settings.read()? })
}

fn rows(label: &str, outcome: &Outcome) -> [Row; 4] {
    let [busy_ns, spinning_ns] = [outcome.busy_ns, outcome.spinning_ns];
    let spinning = |side: usize| ratio(spinning_ns[side], busy_ns[side]) * 100;
    [
        (MPPS, outcome.packets_per_s() as i64),
        ((SPIN.0, "percent of the senders' time"), spinning(0)),
        (("spinning_in_completions", "percent of their processors' time"), spinning(1)),
        (LOCKS, ratio(outcome.locks, outcome.pages[0]) * 1000),
    ]
    .map(|(what, value)| Row::new(label, what, value, RowKind::Predicted))
}
