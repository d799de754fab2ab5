//! Checks of a forwarder's options, with the settings of its directions.

use super::policy;
use crate::args::ForwardArgs;
use crate::usage;
use crate::watch::Change;
use wharf::forward::Forward;
use wharf::qdisc::QdiscRegistry;
use wharf_devices::spec::Direction;

/// Most ports of a switch.
const PORTS_MAX: usize = 255;

/// Checks the command line before anything is opened or created.
pub(super) fn check(args: &ForwardArgs, qdiscs: &QdiscRegistry) -> anyhow::Result<()> {
    policy::check(args)?;
    let devices: Vec<String> = args.ends().iter().map(|end| end.name()).collect();
    Change::check_all(&args.set, &paths(args), &devices, qdiscs)
        .map_err(|error| usage(format!("--set {error}")))
}

/// Returns the names of the paths that there will be. A running switch numbers its ports as they come.
fn paths(args: &ForwardArgs) -> Vec<String> {
    let ends = args.ends();
    if !args.ports.is_empty() {
        let last = if args.is_running { PORTS_MAX } else { ends.len() };
        return (1..=last).map(|number| format!("p{number}")).collect();
    }
    let way = |at: usize| Forward::direction_at(at, ends[at].kind());
    let there = |at: &usize| way(*at) != Direction::Send && way(1 - at) != Direction::Receive;
    [0, 1].into_iter().filter(there).map(|at| ["a-b", "b-a"][at].into()).collect()
}
