//! `tx-napi`: the effect on a virtual machine's traffic of the time at which transmitted buffers are freed,
//! 2017: at the next transmit (`upstream`; on the host `off`), also by a timer (`timer`), or when polled for
//! (`napi`; `on`).
//!
//! In virtual time `model.rs` has a guest, its host's thread and a program there. On the host `host.rs` has
//! Wharf's `virtio-user` in place of the guest's driver and `vhost-user` in place of the machine's device.

mod host;
mod model;

use super::{Bench, Experiment, LabError, World};

/// The experiment.
#[derive(Debug)]
pub(super) struct TxNapi;

impl Experiment for TxNapi {
    fn name(&self) -> &'static str {
        "tx-napi"
    }

    fn what(&self) -> &'static str {
        "a virtual machine's transmit completions: freed at the next transmit, by a timer, or by NAPI (2017)"
    }

    fn worlds(&self) -> &'static [World] {
        &[World::Model, World::Host]
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn parameters(&self, world: World) -> &'static str {
        match world {
            World::Model => include_str!("../../parameters/tx-napi.toml"),
            World::Host => include_str!("../../parameters/tx-napi-host.toml"),
        }
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        match bench.world {
            World::Model => model::run(bench),
            World::Host => host::run(bench),
        }
    }
}
