//! NICs, links and plans: one binary, since each links anew.

mod interface;
mod nics;
mod pcie;
mod plan;
