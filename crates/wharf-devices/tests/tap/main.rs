//! `tap:` interfaces of the kernel's: each test in a network of its own.
//!
//! Needs root (a new network namespace) and `ip`; a test says so and passes where it has not. With CI=true
//! that fails.

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod lies;
#[path = "../packet/net.rs"]
mod net;
mod opening;
#[path = "../packet/poller.rs"]
mod poller;
mod polling;
mod stream;
#[path = "../packet/supers.rs"]
mod supers;
mod traffic;
