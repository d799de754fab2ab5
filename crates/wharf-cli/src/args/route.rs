//! Arguments of `wharf route`.

use clap::{Args, Subcommand};
use std::net::IpAddr;

const EXAMPLES: &str = "\
Examples:
  wharf route get 192.0.2.7
      interface, gateway, source, MTU and MAC, and what led there
  wharf route get 2001:db8::7 from 2001:db8:1::1 oif eth0 --json
      one JSON object; exit code 1 if no route leads there
  wharf route get 192.0.2.7 mark 7 ipproto udp dport 53
      as rules by mark and port decide

Words, as `ip route get` has them: from ADDRESS, iif INTERFACE, oif INTERFACE, mark NUMBER, tos NUMBER, uid NUMBER, ipproto tcp, udp or \
NUMBER, sport PORT, dport PORT. Numbers may be hexadecimal (0x10). Nothing is sent: a MAC that the kernel does not know stays unknown.";

/// `wharf route`.
#[derive(Debug, Args)]
pub(crate) struct RouteArgs {
    #[command(subcommand)]
    pub(crate) command: RouteCommand,
}

/// What is asked of the routes.
#[derive(Debug, Subcommand)]
pub(crate) enum RouteCommand {
    /// Show the next hop of a destination, and what led to it
    Get(RouteGetArgs),
}

/// `wharf route get`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RouteGetArgs {
    /// Destination
    #[arg(value_name = "ADDRESS")]
    pub(crate) to: IpAddr,
    /// What rules regard: from ADDRESS, iif INTERFACE, oif INTERFACE, mark NUMBER and others
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}
