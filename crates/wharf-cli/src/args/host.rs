//! Options for interfaces that this host uses, too.

use clap::Args;

/// Treatment of an interface that this host depends on.
#[derive(Debug, Clone, Copy, Args)]
pub struct HostArgs {
    /// Receive by xdp, too, on an interface that has the default route or this login (SSH): this host is cut
    /// off there meanwhile
    #[arg(long)]
    pub take_host: bool,
}
