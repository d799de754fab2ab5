//! `pages`: a receive channel takes pages on its processor, and the consuming application frees them on
//! another. It measures the cost under each pool policy, on this machine, or on a modelled one of 48
//! processors and 12 channels.

mod host;
mod model;
mod workload;

use super::row::scaled;
use super::{Experiment, World};

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

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pages",
    what: "pages taken on one processor and freed on another: pool policies, spinning, packets per second",
    has_device: false,
    worlds: &[
        (World::Model, &[include_str!("../../scenarios/pages.toml")], model::run),
        (World::Host, &[include_str!("../../parameters/pages-host.toml")], host::run),
    ],
};
