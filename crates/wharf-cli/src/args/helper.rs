//! Arguments of `wharf admin helper`.

use crate::sandbox::group;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  sudo wharf admin helper eth0 --group wharf
      serve the members of group wharf, at /run/wharf-helper.sock
  wharf receive --from xdp:eth0,helper=/run/wharf-helper.sock
      receive as one of them, without a capability
  sudo wharf admin helper eth0 eth1 --socket /run/xdp.sock --pin /sys/fs/bpf/wharf
      serve two interfaces; their maps are pinned as /sys/fs/bpf/wharf/eth0 and eth1, too

It attaches an XDP program to each interface, which hands the frames of a queue to the AF_XDP socket that a user has put into its map, \
and leaves all others to the host. It needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. It speaks the protocol of the AF_XDP device plug-in \
for Kubernetes, so that DPDK's `use_cni=1,dp_path=SOCKET` works with it, and gives sockets, too, to users without CAP_NET_RAW. A user may \
take any queue of these interfaces. When the helper ends, its users receive nothing more.";

/// `wharf admin helper`: the interfaces, and the socket to serve them at.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HelperArgs {
    /// Interfaces to serve, in this network namespace
    #[arg(value_name = "INTERFACE", required = true)]
    pub(crate) interfaces: Vec<String>,
    /// Socket to listen at
    #[arg(long, value_name = "PATH", default_value = "/run/wharf-helper.sock")]
    pub(crate) socket: PathBuf,
    /// Permissions of the socket, octal; a user that may write to it may connect [default: 600, or 660 with --group]
    #[arg(long, value_name = "OCTAL", value_parser = mode)]
    pub(crate) mode: Option<u32>,
    /// Group of the socket, a name of /etc/group or a number [default: the helper's own]
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub(crate) group: Option<u32>,
    /// Pin the map of each interface in this directory of a BPF file system while the helper runs, for programs that take pinned maps
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) pin: Option<PathBuf>,
    /// Leave the interfaces to what is addressed to this host; otherwise they are promiscuous while the helper runs
    #[arg(long)]
    pub(crate) no_promisc: bool,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "want a mode from 0 to 777, octal".into())
}
