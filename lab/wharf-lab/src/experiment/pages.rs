//! `pages`: a receive channel takes pages on its processor, and the consuming application frees them on
//! another. It measures the cost under each pool policy, on this machine, or on a modelled one of 48
//! processors and 12 channels. Packets that are sent have it the other way: a sender takes the page, and the
//! processor that handles the completions of its transmit queue frees it.

mod host;
mod model;
mod send;
mod workload;

use super::row::scaled;
use super::{Bench, Experiment, LabError, World};

const MPPS: (&str, &str) = ("mpps", "Mpps");
const OF_ALLOCATOR: (&str, &str) = ("mpps_of_allocator", "times");
const SPIN: (&str, &str) = ("spinning", "percent of busy time");
const SPIN_IN_POLL: (&str, &str) = ("spinning_in_poll", "percent of the channels' time");
const RECYCLED: (&str, &str) = ("recycled", "percent of allocations");
const SLOW: (&str, &str) = ("slow_paths", "per thousand allocations");
const LOCKS: (&str, &str) = ("locks", "per thousand allocations");
const RETURNS: (&str, &str) = ("remote_returns", "percent of frees");
const BLOCKED: (&str, &str) = ("head_blocked", "percent of allocations");

/// Returns millionths of `a` over `b`.
fn ratio(a: u64, b: u64) -> i64 {
    scaled(a, 1_000_000, b)
}

/// Runs the model of receiving, then that of sending.
fn modelled(bench: &mut Bench<'_>) -> Result<(), LabError> {
    model::run(bench)?;
    send::run(bench)
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pages",
    what: "pages taken on one processor and freed on another: pool policies, spinning, packets per second",
    has_device: false,
    worlds: &[
        (World::Model, &[include_str!("../../scenarios/pages.toml")], modelled),
        (World::Host, &[include_str!("../../parameters/pages-host.toml")], host::run),
    ],
};
