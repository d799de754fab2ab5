//! Options by which a run is watched from outside.

use super::values;
use crate::files::Named;
#[cfg(feature = "metrics")]
use crate::watch::Endpoint;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Counters of a run while it goes on.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "From outside")]
pub(crate) struct WatchArgs {
    /// Print the counters at this interval: a line of rates on standard error, with --json a JSON object on one line of standard output.
    /// SIGUSR1 prints all counters at any time, and has captures written as far as they have come
    #[arg(long, value_name = "S", value_parser = values::seconds_from(values::INTERVAL_MS_MIN))]
    pub(crate) stats: Option<Duration>,
    /// Write the JSON objects of --stats to this file in place of standard output. Lines that the reader of a fifo does not take are left out
    #[arg(long, value_name = "FILE", requires = "stats", value_parser = stats_file)]
    pub(crate) stats_file: Option<PathBuf>,
    /// Serve all counters by HTTP, as OpenMetrics, at /metrics of this address and port, or of this socket, which only the user who starts
    /// the run may connect to: 127.0.0.1:9100, /run/wharf.sock
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDRESS|SOCKET", value_parser = Endpoint::parse)]
    pub(crate) metrics: Option<Endpoint>,
    /// Answer only requests to this host, the name in a scraper's `targets`: a page in a browser cannot then read the counters under a
    /// name of its own (DNS rebinding)
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "HOST", requires = "metrics")]
    pub(crate) metrics_host: Option<String>,
    /// Listen at this socket, which only the user who starts the run may connect to, for `wharf show`, `wharf set`
    /// and `wharf top`; off for none [default: for `forward`, and a run without an end, /run/wharf/PID.sock of root,
    /// $XDG_RUNTIME_DIR/wharf-PID.sock of others]
    #[arg(long, value_name = "SOCKET|off", value_parser = control_at)]
    pub(crate) control: Option<ControlAt>,
}

/// The place of the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlAt {
    Off,
    Socket(PathBuf),
}

fn stats_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("standard output has the summary: name a file; ./- is one of that name".into()),
        path => Ok(path.into()),
    }
}

fn control_at(text: &str) -> Result<ControlAt, String> {
    match text {
        "off" => Ok(ControlAt::Off),
        path if path.contains('/') => Ok(ControlAt::Socket(path.into())),
        _ => Err("want off, or the path of a socket, such as /run/x.sock or ./x.sock".into()),
    }
}

const SHOW: &str = "\
Examples:
  wharf show
      the runs that have a control socket: those without an end, and those that were started with --control
  wharf show 4711
      the counters of process 4711, with its rates over 0.3 s
  wharf show /run/wharf/4711.sock --json
      the same as one JSON object";

/// `wharf show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct ShowArgs {
    /// Process, or path of its control socket; all that run if left out
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) which: Option<String>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const SET: &str = "\
Examples:
  wharf set rate=20mbit
      of the only run that there is, 20 Mbit/s in each direction
  wharf set 4711 a-b.rate=5mbit b-a.rate=off
      from the first end to the second 5 Mbit/s, and no rate the other way
  wharf set 4711 bql=max=64k batching=off qdisc=fq_codel:limit=100
      byte queue limit, batching, and another queueing discipline
  wharf set 4711 when-full=drop-tail small-queues=64k
      drop what the discipline has no room for, and bound what one sender has inside

Keys: rate (as --rate takes it, or off) and burst (or bucket) of a forwarder; bql, batching (or batch), qdisc, small-queues and when-full as the options of \
`wharf send` and `wharf forward` take them. PATH. before a key, a-b, b-a, p3 or the device that \
it leaves by, is for one direction; a switch's p1, p2, ... for what leaves by that port. link=down takes the line of a vhost-user socket down, link=up has it back. All changes are made, or none. Packets \
that wait go into the new discipline; those that it has no room for are dropped and counted (qdisc-changed). Memory stays as it was at \
the start.";

/// `wharf set`.
#[derive(Debug, Args)]
#[command(after_help = SET)]
pub(crate) struct SetArgs {
    /// Process, or path of its control socket, which may be left out if only one runs; then the changes
    #[arg(value_name = "[PID|SOCKET] KEY=VALUE")]
    pub(crate) words: Vec<String>,
    /// One JSON object with counters and settings instead of a line for each direction
    #[arg(long)]
    pub(crate) json: bool,
}

/// `wharf top`.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Process, or path of its control socket; the first that runs if left out. Arrow keys change to others, p pauses, ? explains, q quits
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) which: Option<String>,
    /// Time between two pictures
    #[arg(long, value_name = "S", default_value = "1", value_parser = values::seconds_from(values::INTERVAL_MS_MIN))]
    pub(crate) interval: Duration,
}

impl WatchArgs {
    /// Returns the file that the counters are written to.
    pub(crate) fn written(&self) -> Option<Named<'_>> {
        self.stats_file.as_deref().map(|path| ("--stats-file", path))
    }
}
