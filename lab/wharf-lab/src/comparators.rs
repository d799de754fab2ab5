//! Implementations that Wharf's own are compared with, and the instruments of the comparisons.

pub mod histogram;
pub mod locked_queue;
pub mod page_policy;
pub mod run_log;
