//! The wire's ends by hand, call by call, with a clock of the test's own.

mod ends;
mod line;
mod model;
mod rate;
mod rings;
mod shapes;
