//! Options of the wrappers around a device: faults and a trace.

use super::TUNING;
use crate::files::Named;
use clap::Args;
use std::path::PathBuf;
use wharf::testing::FaultSpec;

/// Wrappers around the device.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = TUNING)]
pub(crate) struct WrapArgs {
    /// Make the device fail, the same way for the same seed, such as seed=7,error=1%,short=10%. Also
    /// stall=0.1%:5ms, lost=1%, late=1%:200us, reorder=5%, alloc=1%, never=0.1% (completions that do not come),
    /// freeze=0.01%:1s (the device does nothing at all for a time) and half=1% (completions, or receptions, in two
    /// parts). Each is a share, or 1/100 for every hundredth
    #[arg(long, value_name = "FAULTS", value_parser = FaultSpec::parse)]
    pub(crate) fault: Option<FaultSpec>,
    /// Write a capture of the frames that the device takes or receives
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

impl WrapArgs {
    /// Returns the file to trace into.
    pub(crate) fn trace_file(&self) -> Option<Named<'_>> {
        self.trace.as_deref().map(|path| ("--trace", path))
    }
}
