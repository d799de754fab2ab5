//! A plan as JSON. Keys are a promise: they are added to, never renamed.

use super::answer::bits_per_second;
use super::band::Band;
use super::{Answer, Direction, FeatureOutcome, Limit, Outcome, Part, Plan, Question, SweepRow};
use crate::nics::{Cost, Figure, Mark, ONE, Transfer, Way};
use serde::Serialize;

/// The whole report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The NIC's name.
    pub nic: String,
    /// The link: `gen3x16,mps=256,mrrs=512,rcb=64`.
    pub link: String,
    /// True if figures of the link's generation are an estimate.
    pub link_is_estimate: bool,
    /// Bytes of a frame with its check sequence; the mean of a mixture.
    pub packet_bytes: f64,
    /// Processors.
    pub cores: u32,
    /// The figures of the direction asked for.
    #[serde(flatten)]
    pub outcome: DirectionRow,
    /// Billions of bits a second on the wire, preamble and gap counted.
    pub gbps: f64,
    /// The effect of each feature alone.
    pub features: Vec<FeatureRow>,
    /// All compatible features.
    pub together: Together,
    /// The verdict on the target.
    pub target: Answer,
    /// Published measurements where the same part binds, as shares of the planner's figures; null without one.
    pub band: Option<Band>,
    /// Sending, receiving and both at once.
    pub directions: Vec<DirectionRow>,
    /// A row for each size; empty without a sweep.
    pub sweep: Vec<SweepLine>,
    /// The share of each transfer.
    pub transfers: Vec<TransferRow>,
    /// Every other number, with its origin.
    pub figures: Vec<Figure>,
}

/// Bytes on the bus for a packet.
#[derive(Debug, Clone, Serialize)]
pub struct Bus {
    /// Towards the NIC.
    pub to_nic_bytes: f64,
    /// Towards the host.
    pub to_host_bytes: f64,
    /// The link's capacity each way, in billions of bits a second.
    pub tlp_gbps: f64,
    /// The capacity without acknowledgements and flow control.
    pub raw_gbps: f64,
}

/// A part and its limit.
#[derive(Debug, Clone, Serialize)]
pub struct LimitRow {
    /// The part.
    pub part: Part,
    /// Millions of packets a second.
    pub mpps: f64,
}

/// A feature.
#[derive(Debug, Clone, Serialize)]
pub struct FeatureRow {
    /// Its name.
    pub name: String,
    /// True if it is on.
    pub on: bool,
    /// Its description.
    pub what: String,
    /// The rate with it, all others unchanged.
    pub mpps_with: f64,
    /// The rate without it.
    pub mpps_without: f64,
    /// The command that switches it, with `IF` for the interface and `ON` for on or off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// All compatible features.
#[derive(Debug, Clone, Serialize)]
pub struct Together {
    /// The features that are on.
    pub features: Vec<String>,
    /// The rate with them.
    pub mpps: f64,
    /// The part that binds then.
    pub binding: Part,
}

/// One direction.
#[derive(Debug, Clone, Serialize)]
pub struct DirectionRow {
    /// `tx`, `rx` or `both`.
    pub direction: Direction,
    /// Bytes on the bus.
    pub bus: Bus,
    /// The limits of all parts.
    pub limits: Vec<LimitRow>,
    /// The part that binds.
    pub binding: Part,
    /// The counter that confirms it, with `IF` for the interface.
    pub confirmed_by: &'static str,
    /// Millions of packets a second, each way.
    pub mpps: f64,
}

/// A size of a sweep.
#[derive(Debug, Clone, Serialize)]
pub struct SweepLine {
    /// Bytes of a frame.
    pub packet_bytes: u32,
    /// Towards the NIC.
    pub to_nic_bytes: f64,
    /// Towards the host.
    pub to_host_bytes: f64,
    /// Millions of packets a second.
    pub mpps: f64,
    /// The part that binds.
    pub binding: Part,
    /// With all compatible features.
    pub mpps_together: f64,
}

/// A transfer.
#[derive(Debug, Clone, Serialize)]
pub struct TransferRow {
    /// `tx` or `rx`.
    pub way: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Packets that share a unit of it.
    pub every: u64,
    /// Units in a transfer.
    pub batch: u64,
    /// Bytes to the NIC per packet, over all sizes of a mixture.
    pub to_nic_bytes: f64,
    /// Bytes to the host.
    pub to_host_bytes: f64,
    /// The mark of its numbers.
    pub mark: Mark,
    /// The source of its numbers.
    pub source: String,
}

/// Returns bytes to a thousandth.
fn thousandths(billionths: u64) -> f64 {
    (billionths.saturating_add(500_000) / 1_000_000) as f64 / 1e3
}

fn mpps(pps: u64) -> f64 {
    pps as f64 / 1e6
}

fn direction_row(plan: &Plan, outcome: &Outcome) -> DirectionRow {
    let Outcome { direction, cost, limits, binding, pps } = outcome;
    let row = |limit: &Limit| Some(LimitRow { part: limit.part, mpps: mpps(limit.pps?) });
    let bus = Bus {
        to_nic_bytes: thousandths(cost.to_nic_bytes),
        to_host_bytes: thousandths(cost.to_host_bytes),
        tlp_gbps: plan.link.tlp_bits_per_second() as f64 / 1e9,
        raw_gbps: plan.link.raw_bits_per_second() as f64 / 1e9,
    };
    let limits = limits.iter().filter_map(row).collect();
    let confirmed_by = binding.confirmed_by(plan.nic.drivers.iter().any(|driver| driver.starts_with("mlx5")));
    DirectionRow { direction: *direction, bus, limits, binding: *binding, confirmed_by, mpps: mpps(*pps) }
}

/// Returns the share of each transfer of a direction. Transfers that no packet has, as all are inlined, are
/// left out.
fn transfer_rows(way: &'static str, of: &Way, plan: &Plan, question: &Question) -> Vec<TransferRow> {
    let mean = u32::try_from((question.load.packet_bytes() + ONE / 2) / ONE).unwrap_or(u32::MAX);
    let share = |transfer: &Transfer, size| {
        let shares = of.shares(&plan.link, size);
        shares.into_iter().find(|share| share.transfer.name == transfer.name).map(|one| (one.every, one.cost))
    };
    let row = |transfer: &Transfer| {
        let cost = question.load.cost(|size| share(transfer, size).unwrap_or_default().1);
        (cost != Cost::default()).then(|| TransferRow {
            way,
            name: transfer.name,
            every: share(transfer, mean).map_or(transfer.every, |share| share.0),
            batch: transfer.batch,
            to_nic_bytes: thousandths(cost.to_nic_bytes),
            to_host_bytes: thousandths(cost.to_host_bytes),
            mark: transfer.mark,
            source: transfer.source.clone(),
        })
    };
    of.transfers.iter().filter_map(row).collect()
}

impl Report {
    /// Creates the report of `plan` and of a sweep's rows for `question`.
    pub fn new(plan: &Plan, question: &Question, sweep: &[SweepRow]) -> Self {
        let at = question.direction as usize;
        let (outcome, together) = (&plan.outcomes[at], &plan.together[at]);
        let (tx, rx) = (&plan.nic.tx, &plan.nic.rx);
        let feature = |feature: &FeatureOutcome| {
            let FeatureOutcome { name, what, on, with, without, command } = feature.clone();
            FeatureRow { name, on, what, mpps_with: mpps(with[at]), mpps_without: mpps(without[at]), command }
        };
        let size = |row: &SweepRow| SweepLine {
            packet_bytes: row.size,
            to_nic_bytes: thousandths(row.outcome.cost.to_nic_bytes),
            to_host_bytes: thousandths(row.outcome.cost.to_host_bytes),
            mpps: mpps(row.outcome.pps),
            binding: row.outcome.binding,
            mpps_together: mpps(row.together_pps),
        };
        Self {
            nic: plan.nic.name.clone(),
            link: plan.link.to_string(),
            link_is_estimate: plan.link.generation().is_estimate(),
            packet_bytes: thousandths(question.load.packet_bytes()),
            cores: question.cores,
            outcome: direction_row(plan, outcome),
            gbps: bits_per_second(&plan.nic, question, outcome.pps) as f64 / 1e9,
            features: plan.features.iter().map(feature).collect(),
            together: Together {
                features: plan.together_on.clone(),
                mpps: mpps(together.pps),
                binding: together.binding,
            },
            target: plan.answer.clone(),
            band: plan.band,
            directions: plan.outcomes.iter().map(|outcome| direction_row(plan, outcome)).collect(),
            sweep: sweep.iter().map(size).collect(),
            transfers: [transfer_rows("tx", tx, plan, question), transfer_rows("rx", rx, plan, question)]
                .concat(),
            figures: plan.nic.figures().into_iter().cloned().collect(),
        }
    }
}
