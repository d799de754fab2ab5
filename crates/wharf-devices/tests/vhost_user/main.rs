//! `vhost-user` against drivers of the test's own: one that keeps the rules, both layouts, and many that do
//! not.

#[path = "../common/mod.rs"]
mod common;
mod descriptors;
mod frames;
mod guest;
mod hostile;
mod hostile_cases;
mod peer;
mod rig;
