//! The arguments of `wharf lab` and `wharf plan`.

mod lab;
mod plan;

pub(crate) use lab::{
    LabArgs, LabCalibrateArgs, LabCommand, LabCompareArgs, LabListArgs, LabRunArgs, LabSweepArgs,
};
pub(crate) use plan::PlanArgs;
