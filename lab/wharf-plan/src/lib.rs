//! The planner: the packet rate that a server can carry, and the part that limits it.
//!
//! - [`interface`]: the settings of a network interface, read from sysfs and ethtool.
//! - [`nics`]: descriptions of NICs (`nics/*.toml`, each number with its source).
//! - [`pcie`]: the cost of transfers on a PCI Express link, and a model of the link in time.
//! - [`plan`]: the answer to a question, with the limit of each part.
#![forbid(unsafe_code)]

pub mod interface;
pub mod nics;
pub mod pcie;
pub mod plan;
