//! `fault` and `trace`: by hand, and under the whole path.

#[path = "../common/mod.rs"]
mod common;

mod by_hand;
