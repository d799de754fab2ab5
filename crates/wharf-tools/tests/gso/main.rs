//! Super-packets on their way to devices that cannot cut them.

#[path = "../../../wharf-devices/tests/common/mod.rs"]
mod common;
mod kinds;
mod model;
mod path;
mod plain;
