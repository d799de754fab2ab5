//! `pages`: a receive channel takes pages on its processor, and the consuming application frees them on
//! another. It measures the cost under each pool policy, on this machine, or on a modelled one of 48
//! processors and 12 channels.

mod host;
mod model;
mod workload;

use super::{Bench, Experiment, LabError, World};

/// The experiment.
#[derive(Debug)]
pub(super) struct Pages;

const MPPS: (&str, &str) = ("mpps", "Mpps");
const OF_ALLOCATOR: (&str, &str) = ("mpps_of_allocator", "times");
const SPIN: (&str, &str) = ("spinning", "percent of busy time");
const SPIN_IN_POLL: (&str, &str) = ("spinning_in_poll", "percent of the channels' time");
const RECYCLED: (&str, &str) = ("recycled", "percent of allocations");
const SLOW: (&str, &str) = ("slow_paths", "per thousand allocations");
const LOCKS: (&str, &str) = ("locks", "per thousand allocations");
const RETURNS: (&str, &str) = ("remote_returns", "percent of frees");
const BLOCKED: (&str, &str) = ("head_blocked", "percent of allocations");

impl Experiment for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn what(&self) -> &'static str {
        "pages taken on one processor and freed on another: pool policies, spinning, packets per second"
    }

    fn worlds(&self) -> &'static [World] {
        &[World::Model, World::Host]
    }

    fn parameters(&self, world: World) -> &'static str {
        match world {
            World::Model => include_str!("../../parameters/pages.toml"),
            World::Host => include_str!("../../parameters/pages-host.toml"),
        }
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        match bench.world {
            World::Model => model::run(bench),
            World::Host => host::run(bench),
        }
    }
}
