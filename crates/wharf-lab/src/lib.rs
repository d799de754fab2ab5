//! Wharf in virtual time.
//!
//! [`engine`]: the agenda of events, the virtual clock, and what processors share. [`hardware`]: NICs that run on
//! it, as driver and hardware. [`kernel`]: the kernel's transmit path on modelled processors; [`lanes`]: our own, whole.
//! [`experiment`]: what `wharf lab` runs.
//!
//! [`pcie`]: what a transfer costs on the bus. [`nic`]: NICs with their real descriptor bytes on that bus. [`nics`]:
//! descriptions of NICs. [`plan`]: what a server can carry.
#![forbid(unsafe_code)]

pub mod engine;
pub mod experiment;
pub mod hardware;
pub mod kernel;
pub mod lanes;
pub mod nic;
pub mod nics;
pub mod pages;
pub mod pcie;
pub mod plan;
mod witness;
