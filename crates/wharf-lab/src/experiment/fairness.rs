//! `fairness`: many senders, one queue: the effect of each enqueue discipline and each owner policy, above
//! all on dequeue fairness (2011).
//!
//! On the host, `host.rs` runs every discipline with every policy, on `null` and on a wire with a rate, with
//! threads that send as fast as they can. In virtual time, `model.rs` runs the machine of 2011 with 1 to 4
//! processors, and with more. Labels are `DISCIPLINE/POLICY/threads=N`; on the host a row's `device` names
//! the device.

mod host;
mod measured;
mod metrics;
mod model;
mod paths;
mod processor;
mod rounds;

use super::{Bench, Experiment, LabError, World};

/// The experiment.
#[derive(Debug)]
pub(super) struct Fairness;

impl Experiment for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn what(&self) -> &'static str {
        "many senders, one queue: enqueue disciplines and owner policies, who sends and who drains (2011)"
    }

    fn worlds(&self) -> &'static [World] {
        &[World::Model, World::Host]
    }

    fn parameters(&self, world: World) -> &'static str {
        match world {
            World::Model => include_str!("../../parameters/fairness.toml"),
            World::Host => include_str!("../../parameters/fairness-host.toml"),
        }
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        match bench.world {
            World::Model => model::run(bench),
            World::Host => host::run(bench),
        }
    }
}
