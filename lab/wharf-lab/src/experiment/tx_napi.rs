//! `tx-napi`: the effect on a virtual machine's traffic of the time at which transmitted buffers are freed,
//! 2017: at the next transmit (`upstream`), or when polled for (`napi`).
//!
//! In virtual time `model.rs` has a guest, its host's thread and a program there. On this machine `bench/tx-napi.sh`
//! runs Wharf's `virtio-user` in place of the guest's driver and `vhost-user` in place of the machine's device.

mod model;

use super::{Experiment, World};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tx-napi",
    what: "a virtual machine's transmit completions: freed at the next transmit, by a timer, or by NAPI (2017)",
    has_device: false,
    worlds: &[(World::Model, &[include_str!("../../scenarios/tx-napi.toml")], model::run)],
};
