//! The lab: experiments in virtual time and on this machine, each beside published figures.
//!
//! - [`comparators`]: implementations that the path is compared with.
//! - [`experiment`]: the experiments of `wharf lab`, their parameters, rows and sweeps.
//! - [`models`]: the systems that the experiments model.
//! - [`scenario`]: anybody's senders, queue, link and machine, in virtual time and on this machine.
//! - [`report`]: a page of tables and pictures made of reports.
#![forbid(unsafe_code)]

pub mod comparators;
pub mod experiment;
pub mod models;
pub mod report;
pub mod scenario;
