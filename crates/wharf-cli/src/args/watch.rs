//! Options by which a run is watched from outside.

use super::values;
use crate::files::Named;
use crate::watch::Endpoint;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Counters of a run while it goes on.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "From outside")]
pub(crate) struct WatchArgs {
    /// Print the counters at this interval on standard error: a line of rates for people, with --json a JSON object on one line.
    /// SIGUSR1 prints all counters at any time
    #[arg(long, value_name = "S", value_parser = values::interval)]
    pub(crate) stats: Option<Duration>,
    /// Write the JSON objects of --stats to this file in place of standard error
    #[arg(long, value_name = "FILE", requires = "stats")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Serve all counters by HTTP, as OpenMetrics, at /metrics of this address and port, or of this socket, which only the run's user
    /// may connect to: 127.0.0.1:9100, /run/wharf.sock
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDRESS|SOCKET", value_parser = Endpoint::parse)]
    pub(crate) metrics: Option<Endpoint>,
}

impl WatchArgs {
    /// Returns the file that the counters are written to.
    pub(crate) fn written(&self) -> Option<Named<'_>> {
        self.stats_file.as_deref().map(|path| ("--stats-file", path))
    }
}
