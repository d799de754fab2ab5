//! `wharf plan`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use wharf_cli::args::values;
use wharf_plan::pcie::Link;
use wharf_plan::plan::{Direction, Load, Sweep, Target};

const EXAMPLES: &str = "\
Examples:
  wharf plan --nic cx5 --link gen3x16 --size 60 --cores 12
      what a ConnectX-5 can send on 16 lanes of generation 3, what stops it, and what each feature would buy
  wharf plan --nic cx5 --link gen4x16,mps=512 --imix --direction both --target 200gbit
      can it forward 200 Gbit/s of mixed sizes, and if not, what stops it
  wharf plan --nic ixgbe --feature xmit_more=off --set tx.completion.batch=16
      other features and numbers than the description has
  wharf plan --nic my-nic.toml --sweep size=60..1514 --report out
      a NIC of your own, over all sizes, with a page and a picture
  wharf plan --from eth0
      the link, wire, rings and flags that this machine has

Built in: cx5, e1000, igb, ipoib, ixgbe, simple, virtio. A description is TOML; those that are built in are in \
lab/wharf-plan/nics, each number with its source and a mark: published, fitted or assumed.
Sizes are those of `wharf send --size`, without the check sequence of 4 bytes, which the wire carries too. Interrupts are not charged.";

/// The question to work out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct PlanArgs {
    /// The NIC: the name of a built-in description, or a file [default: cx5, or the interface's]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) nic: Option<String>,
    /// Its link: genGxL[,mps=256,mrrs=512,rcb=64,completions=payload|boundary] [default: the description's]
    #[arg(long, value_name = "LINK", value_parser = link)]
    pub(crate) link: Option<Link>,
    /// Read this interface, or that of an RDMA device or a PCI address, in place of --nic and --link; both go before what it says
    #[arg(long, value_name = "IF|PCI-ADDRESS")]
    pub(crate) from: Option<String>,
    /// Folder of sysfs for --from: a tree recorded on another machine, for example
    #[arg(long, value_name = "DIR", requires = "from", default_value = "/sys")]
    pub(crate) sysfs: PathBuf,
    /// Frames of N bytes, as `wharf send --size` has them [default: 60]
    #[arg(long, value_name = "N", conflicts_with = "imix", value_parser = Load::parse)]
    pub(crate) size: Option<Load>,
    /// Frames of 60, 590 and 1514 bytes, 7 to 4 to 1
    #[arg(long)]
    pub(crate) imix: bool,
    /// Processors that handle packets [default: those of the machine with --from, else 12]
    #[arg(long, value_name = "N", value_parser = values::number(1u32..=4096))]
    pub(crate) cores: Option<u32>,
    /// The direction whose figures come first
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Way::Tx)]
    pub(crate) direction: Way,
    /// Switch features; may be given again
    #[arg(long, value_name = "NAME=on|off", value_delimiter = ',', num_args = 1.., value_parser = feature)]
    pub(crate) feature: Vec<(String, bool)>,
    /// Set a number of the description, such as rx.completion.every=8; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Load to carry, each way: 200gbit (on the wire) or 100mpps [default: as much as the wire carries]
    #[arg(long, value_name = "RATE", value_parser = target)]
    pub(crate) target: Option<Target>,
    /// Go through sizes: size=60..1514, or with a step: size=60..1514,step=64
    #[arg(long, value_name = "SIZES", conflicts_with = "imix")]
    pub(crate) sweep: Option<Sweep>,
    /// Write a page and a picture over all sizes into this folder, which is created if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Sent
    Tx,
    /// Received
    Rx,
    /// Both at once, the same number each way
    Both,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Tx => Self::Tx,
            Way::Rx => Self::Rx,
            Way::Both => Self::Both,
        }
    }
}

fn link(text: &str) -> Result<Link, String> {
    text.parse().map_err(|error: wharf_plan::pcie::LinkError| error.to_string())
}

fn feature(text: &str) -> Result<(String, bool), String> {
    let on = |value| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let read = text.split_once('=').and_then(|(name, value)| Some((name.to_string(), on(value)?)));
    read.ok_or_else(|| "want NAME=on or NAME=off, such as rx_cqe_compress=on".into())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let read = text.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
    read.map(|(key, value)| (key.to_string(), value.to_string()))
        .ok_or_else(|| "want KEY=VALUE, such as rx.completion.every=8".into())
}

fn target(text: &str) -> Result<Target, String> {
    use wharf_tools::traffic::Pace;
    match values::rate(text)? {
        Pace::Packets(pps) => Ok(Target::Packets(pps)),
        Pace::Bits(bits) => Ok(Target::Bits(bits)),
        _ => Err("want a rate with its unit, such as 200gbit or 100mpps".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_told_apart() {
        assert_eq!(feature("a=on"), Ok(("a".into(), true)));
        assert_eq!(target("200gbit"), Ok(Target::Bits(200_000_000_000)));
        assert_eq!(target("100mpps"), Ok(Target::Packets(100_000_000)));
        assert!(
            feature("a").is_err()
                && feature("a=1").is_err()
                && setting("a=").is_err()
                && setting("=1").is_err()
        );
        assert!(target("fast").is_err() && link("gen3x3").is_err());
    }
}
