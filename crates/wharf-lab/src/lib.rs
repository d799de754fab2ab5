//! Wharf in virtual time.
//!
//! [`engine`]: the agenda of events, the virtual clock, and what processors share. [`hardware`]: NICs that run on
//! it, as driver and hardware. [`kernel`]: the kernel's transmit path on modelled processors; [`stack`]: the same with TCP
//! streams and super-packets; [`lanes`]: our own, whole; [`limit`]: its inside, on a wire that
//! changes its speed.
//! [`flows`]: TCP, requests and responses, UDP; [`guest`]: a virtual machine that sends to its host. [`experiment`]: what `wharf lab` runs; [`report`]: a page of it.
//!
//! [`pcie`]: what a transfer costs on the bus. [`nic`]: NICs with their real descriptor bytes on that bus. [`nics`]:
//! descriptions of NICs. [`plan`]: what a server can carry.
#![forbid(unsafe_code)]

pub mod engine;
pub mod experiment;
pub mod flows;
pub mod guest;
pub mod hardware;
pub mod kernel;
pub mod lanes;
pub mod limit;
pub mod nic;
pub mod nics;
pub mod pages;
pub mod pcie;
pub mod plan;
pub mod report;
pub mod stack;
mod witness;
