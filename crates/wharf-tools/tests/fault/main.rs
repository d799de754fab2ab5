//! `fault` and `trace`: by hand, and around a device under the whole path.

#[path = "../../../wharf-devices/tests/common/mod.rs"]
mod common;

mod by_hand;
mod flow;
mod path;
mod rig;
