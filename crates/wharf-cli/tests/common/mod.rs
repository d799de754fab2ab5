//! What the tests of the command share.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

pub mod driver;
mod programs;
pub mod scrape;
pub mod show;

pub use programs::*;
