//! `tx-napi`: what it does to a virtual machine's traffic when transmitted buffers are freed: at the next transmit (`upstream`; on
//! the host `off`), by a timer as well (`timer`), or when polled for (`napi`; `on`), 2017.
//!
//! In virtual time a guest, its host's thread and a program there: `model.rs`. On the host, our own `virtio-user` in place of the
//! guest's driver and our own `vhost-user` in place of the machine's device: `host.rs`.

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
