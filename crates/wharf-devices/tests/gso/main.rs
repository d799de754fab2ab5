//! Super-packets on their way to devices that cannot cut them.

#[path = "../common/mod.rs"]
mod common;
mod kinds;
mod model;
mod path;
mod plain;
