//! For tests of a user's own: ports in virtual time, devices with faults, the contract of a discipline.

mod fault;
mod virtual_time;

pub use fault::{Chance, Fault, FaultCounts, FaultSpec};
pub use virtual_time::Virtual;
#[doc(inline)]
pub use wharf_core::qdisc::contract::check as check_qdisc;
