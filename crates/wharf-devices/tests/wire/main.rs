//! The wire's ends by hand, call by call, with a clock of the test's own.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod line;
mod model;
mod rings;
mod shapes;
