//! What the command line says.

mod bench;
mod forward;
mod lab;
mod plan;
mod receive;
mod send;
mod values;
mod wrap;

pub(crate) use bench::{BenchArgs, BenchCommand, OwnerChoice, PathArgs};
pub(crate) use forward::ForwardArgs;
pub(crate) use lab::{LabArgs, LabCommand, LabListArgs, LabRunArgs, LabSweepArgs};
