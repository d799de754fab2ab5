//! `tx-napi`: what it does to a virtual machine's traffic when transmitted buffers are freed: at the next transmit (`off`), by
//! a timer as well (`timer`), or when polled for (`on`), 2017.
//!
//! On the host, our own `virtio-user` in place of the guest's driver and our own `vhost-user` in place of the machine's
//! device: `host.rs`.

mod host;

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
        &[World::Host]
    }

    fn parameters(&self, _: World) -> &'static str {
        include_str!("../../parameters/tx-napi-host.toml")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        host::run(bench)
    }
}
