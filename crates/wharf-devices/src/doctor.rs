//! Diagnosis of a device: what opening it comes to on this machine, in each direction, and what helps, hinders or prevents it.
//!
//! The verdicts are those of opening: [`diagnose`] opens the device, attaches it to a pool and closes it again. The findings beside
//! them come from the kind's own [`Doctor`].

pub(crate) mod finding;
pub mod host;
#[cfg(any(feature = "packet", feature = "xdp"))]
pub(crate) mod interface;
#[cfg(any(feature = "packet", feature = "xdp"))]
pub(crate) mod kernel;
mod trial;

pub use crate::spec::{Doctor, Effect};
pub use finding::{Datum, Finding, Weight};
pub use trial::Trial;

use crate::spec::{DeviceSpec, Direction};
use wharf_core::pool::{PagePool, PoolBuilder};

/// The scope of a diagnosis.
#[derive(Debug, Clone)]
pub struct Exam {
    /// Directions to open the device in.
    pub directions: Vec<Direction>,
    /// True to open the device; otherwise the findings are all there is.
    pub opens: bool,
    /// True to open it, too, if that may reset an adapter's link.
    pub probes: bool,
    /// True to open it, too, if that disturbs an interface that this host depends on: see
    /// [`HostLoss::is_vital`](crate::host_loss::HostLoss::is_vital).
    pub takes_host: bool,
    /// The pool that the device is attached to: locked memory, page size and frame size count.
    pub pool: PoolBuilder,
}

impl Exam {
    /// Makes one that opens a device of `spec` in each direction that its kind has, on a pool of 4096 frames
    /// of 2 KiB: packets of up to 1536 bytes.
    pub fn of(spec: &DeviceSpec) -> Self {
        let can = spec.kind().can;
        let all = [(can.send, Direction::Send), (can.receive, Direction::Receive)];
        let all: Vec<Direction> =
            all.into_iter().filter(|(can, _)| *can).map(|(_, direction)| direction).collect();
        // A key of one direction asks about that one alone.
        let fitting: Vec<Direction> =
            all.iter().copied().filter(|&direction| spec.check(direction).is_ok()).collect();
        let directions = if fitting.is_empty() { all } else { fitting };
        Self { directions, opens: true, probes: false, takes_host: false, pool: PagePool::builder() }
    }

    /// Returns the reason for which the device is not opened in `direction`, if there is one.
    pub fn untried(&self, spec: &DeviceSpec, direction: Direction) -> Option<String> {
        if !self.opens {
            return Some("opening was not asked for".into());
        }
        // Whatever the direction: a program that is attached may reset the adapter.
        let loss = || (spec.kind().host_loss)(spec, Direction::Receive).filter(|loss| loss.is_vital);
        match (spec.kind().doctor.effect)(spec, direction) {
            Effect::Lasting(why) => Some(why),
            Effect::Reset(what) if !self.probes && !self.takes_host => {
                Some(format!("{what}; --probe opens it all the same"))
            }
            Effect::Short(_) | Effect::Reset(_) if !self.takes_host => {
                loss().map(|loss| format!("{}; --take-host opens it all the same", loss.what))
            }
            Effect::None | Effect::Short(_) | Effect::Reset(_) => None,
        }
    }
}

/// The outcome of a diagnosis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The verdict on each direction.
    pub trials: Vec<(Direction, Trial)>,
    /// The findings, by subject.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// True if the device can be used in `direction`: it was opened; or it was not tried, and nothing is known to prevent it.
    pub fn is_usable(&self, direction: Direction) -> bool {
        let trial = self.trials.iter().find(|(tried, _)| *tried == direction).map(|(_, trial)| trial);
        match trial {
            Some(Trial::Opened { .. }) => true,
            Some(Trial::Refused { .. }) => false,
            Some(Trial::Untried { .. }) | None => {
                !self.findings.iter().any(|finding| finding.prevents(direction))
            }
        }
    }
}

/// Examines the device that `spec` describes.
pub fn diagnose(spec: &DeviceSpec, exam: &Exam) -> Diagnosis {
    let mut findings = (spec.kind().doctor.findings)(spec);
    let trials = exam.directions.iter().map(|&direction| (direction, trial::run(spec, direction, exam)));
    let trials: Vec<(Direction, Trial)> = trials.collect();
    findings.extend(disturbances(spec, &trials));
    Diagnosis { trials, findings }
}

/// Returns what the trials did to others, each effect once.
fn disturbances(spec: &DeviceSpec, trials: &[(Direction, Trial)]) -> Vec<Finding> {
    let opened = trials.iter().filter(|(_, trial)| !matches!(trial, Trial::Untried { .. }));
    let mut effects: Vec<String> = opened
        .filter_map(|(direction, _)| match (spec.kind().doctor.effect)(spec, *direction) {
            Effect::Short(what) | Effect::Reset(what) => Some(what),
            Effect::None | Effect::Lasting(_) => None,
        })
        .collect();
    effects.dedup();
    effects.into_iter().map(|what| Finding::fact("probe", what).mend("--no-probe, to read only")).collect()
}
