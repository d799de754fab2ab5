//! Wharf in virtual time.
//!
//! This crate will hold the models (PCIe, NICs, processors, memory, wires), their event queue, the experiments
//! and the planner: the same queue, owner and byte limits as in `wharf-core`, driven by a virtual clock. There
//! is nothing in it yet; `crates/wharf-core/tests/virtual_time.rs` shows two modelled processors at work.
#![forbid(unsafe_code)]

pub mod pcie;
