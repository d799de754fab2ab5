//! `packet:` on real interfaces: each test in a network of its own, with a pair of virtual interfaces.
//!
//! Needs root (a new network namespace) and `ip`; a test says so and passes where it has not. With CI=true
//! that fails.

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod net;
mod offloads;
mod poller;
mod polling;
mod receiving;
mod segments;
mod sending;
mod supers;
