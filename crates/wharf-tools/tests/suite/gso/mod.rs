//! Super-packets on their way to devices that cannot cut them.

mod kinds;
mod model;
mod path;
mod plain;
