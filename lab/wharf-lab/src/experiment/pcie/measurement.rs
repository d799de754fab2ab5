//! One run of a machine, and its rows.

use crate::experiment::{Bench, LabError, Row, RowKind};
use crate::models::rounded;
use wharf_plan::pcie::Traffic;
use wharf_sim::RunError;
use wharf_sim::nic::NicDriver;
use wharf_sim::nic::cx5::setup::Setup;
use wharf_sim::nic::machine::{Machine, Totals};
use wharf_sim::nic::receive::ReceiveFormat;
use wharf_sim::nic::send::SendFormat;

/// A machine, or the error of building it.
type Built<D, S, R> = Result<Machine<D, S, R>, RunError>;

/// Time between two questions whether to go on: some thousand packets.
const SLICE_PS: u64 = 50_000_000;

/// The result of one run.
#[derive(Debug)]
pub(super) struct Measurement {
    label: String,
    measured_ps: u64,
    /// Packets that were handled as intended, and their bytes on wires.
    packets: u64,
    bytes: u64,
    crossed: Traffic,
    /// Picoseconds in which each direction of the bus was used.
    busy_ps: Traffic,
}

/// Runs the machine, and asks now and then whether to go on.
fn until<D: NicDriver, S: SendFormat, R: ReceiveFormat>(
    bench: &mut Bench<'_>, label: &str, machine: &mut Machine<D, S, R>, from_ps: u64, until_ps: u64,
) -> Result<Totals, LabError> {
    let mut totals = Totals::default();
    for slice_ps in (from_ps..until_ps).step_by(SLICE_PS as usize) {
        if !bench.goes_on(label) {
            return Err(LabError::Run { run: label.into(), source: RunError::Interrupted });
        }
        let ran = machine.run((slice_ps + SLICE_PS).min(until_ps));
        totals = ran.map_err(|source| LabError::Run { run: label.into(), source })?;
    }
    Ok(totals)
}

impl Measurement {
    /// Builds the machine of `setup`, lets it settle, measures it, ends it, and checks its rules. It counts
    /// packets sent, or received.
    pub(super) fn new<D: NicDriver, S: SendFormat, R: ReceiveFormat>(
        bench: &mut Bench<'_>, label: String, setup: Setup, settle: &str, sent: bool,
        build: fn(Setup) -> Built<D, S, R>,
    ) -> Result<Self, LabError> {
        let get = |key: &str| Ok::<u64, LabError>(bench.parameters.get(key)? * 1000);
        let (settle_ps, measured_ps) = (get(settle)?, get("measure_ns")?);
        let fault = |source| LabError::Run { run: label.clone(), source };
        let mut machine = build(setup).map_err(fault)?;
        let before = until(bench, &label, &mut machine, 0, settle_ps)?;
        let after = until(bench, &label, &mut machine, settle_ps, settle_ps + measured_ps)?;
        let end = machine.end(settle_ps + measured_ps).map_err(fault)?;
        bench.packets += end.arrived.offered + end.departed;
        let of = |totals: &Totals| if sent { totals.departed } else { totals.received };
        let over = |of: &dyn Fn(&Totals) -> u64| of(&after) - of(&before);
        let traffic = |of: &dyn Fn(&Totals) -> Traffic| {
            let (from, to) = (of(&before), of(&after));
            Traffic { to_nic: to.to_nic - from.to_nic, to_host: to.to_host - from.to_host }
        };
        let (packets, bytes) = (over(&of), over(&|totals| totals.departed_bytes));
        let crossed = traffic(&|totals| totals.bus.bytes);
        let busy_ps = traffic(&|totals| totals.bus_busy_ps);
        Ok(Self { label, measured_ps, packets, bytes, crossed, busy_ps })
    }

    pub(super) fn row(&self, what: (&'static str, &'static str), millionths: i64) -> Row {
        Row::new(&self.label, what, millionths, RowKind::Predicted)
    }

    pub(super) fn mpps(&self) -> Row {
        self.row(("mpps", "Mpps"), ratio(self.packets, 1_000_000_000_000, self.measured_ps))
    }

    pub(super) fn to_nic_millionths(&self) -> i64 {
        ratio(self.crossed.to_nic, 1_000_000, self.packets)
    }

    pub(super) fn to_host_millionths(&self) -> i64 {
        ratio(self.crossed.to_host, 1_000_000, self.packets)
    }

    pub(super) fn bits_millionths(&self) -> i64 {
        ratio(self.bytes * 8, 1_000_000_000, self.measured_ps)
    }

    /// Returns the use of the bus's busier direction.
    pub(super) fn busier_millionths(&self) -> i64 {
        ratio(self.busy_ps.to_nic.max(self.busy_ps.to_host), 100_000_000, self.measured_ps)
    }

    pub(super) fn to_nic_share_millionths(&self) -> i64 {
        ratio(self.busy_ps.to_nic, 100_000_000, self.measured_ps)
    }

    /// Returns the use of each direction of the bus, in words.
    pub(super) fn bus_use(&self) -> String {
        let percent = |busy_ps| ratio(busy_ps, 1000, self.measured_ps) as f64 / 10.0;
        let Traffic { to_nic, to_host } = self.busy_ps;
        format!(
            "of the bus, {:.1} % is used to the host, {:.1} % to the NIC",
            percent(to_host),
            percent(to_nic)
        )
    }

    pub(super) fn gain_over(&self, before: &Measurement) -> Row {
        self.row(("gain", "percent"), ratio(self.packets, 100_000_000, before.packets) - 100_000_000)
    }
}

/// Returns `part` x `scale` / `whole`, rounded to nearest; 0 if `whole` is 0.
pub(super) fn ratio(part: u64, scale: u64, whole: u64) -> i64 {
    rounded(part, scale, whole) as i64
}
