//! The command, run as a user runs it: its texts, tables, JSON, exit codes and ends.
//!
//! Each test runs programs of its own, in a folder of its own: nothing here changes the state of this process.

mod beside;
mod captures;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod dictionary;
mod doctor;
mod endings;
mod file_limit;
mod forward;
mod guests;
mod guide;
mod kinds;
mod links;
mod listings;
mod manners;
#[cfg(feature = "metrics")]
mod metrics;
mod odd_captures;
mod qdisc;
mod receive;
mod run_report;
mod sandbox;
mod send;
mod service;
mod stats;
mod streams;
mod terminal;
mod usage;
mod verdict;
mod vhost_user;
mod wrappers;
mod wrong_keys;
