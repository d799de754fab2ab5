//! Super-packets on their way to devices that cannot cut them.

mod adapter;
mod kinds;
mod model;
mod path;
mod plain;
