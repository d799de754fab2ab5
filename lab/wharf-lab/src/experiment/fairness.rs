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

use super::{Experiment, World};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    what: "many senders, one queue: enqueue disciplines and owner policies, who sends and who drains (2011)",
    has_device: false,
    worlds: &[
        (World::Model, &[include_str!("../../scenarios/fairness.toml")], model::run),
        (World::Host, &[include_str!("../../parameters/fairness-host.toml")], host::run),
    ],
};
