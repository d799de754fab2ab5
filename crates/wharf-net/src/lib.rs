//! The next hop as the Linux kernel finds it, for programs whose packets go past the kernel.
//!
//! A [`Mirror`] has the kernel's links, addresses, routes, rules, neighbours and nexthop objects of one
//! network namespace, from a dump and then events. [`Tables`] answers a [`Query`] with a [`Hop`], or
//! [`NoHop`]; a [`Cache`] keeps the answers of one sender while nothing changes. An [`Asker`] makes the
//! kernel resolve neighbours, and confirm those in use.
#![forbid(unsafe_code)]

mod asker;
mod cache;
mod hop;
mod inbox;
mod kernel;
mod layers;
mod lookup;
mod maps;
mod mirror;
mod plan;
mod prefixes;
mod query;
mod replay;
mod routes;
mod select;
mod socket;
mod source;
mod state;
mod tables;
mod watch;
mod wire;

pub use asker::Asker;
pub use cache::Cache;
pub use hop::{Exit, Hop, Neighbour, NoHop, Tag, Tunnel, TunnelHeader, Why};
pub use kernel::{Mac, RouteKind};
pub use mirror::Mirror;
pub use query::Query;
pub use tables::Tables;
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
