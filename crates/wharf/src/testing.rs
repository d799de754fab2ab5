//! For tests of a user's own: faults of a device, and the contract of a discipline.

mod fault;

#[doc(hidden)]
pub use fault::{Chance, FailingMemory, FaultReset, roll::Roll};
pub use fault::{Fault, FaultCounts, FaultSpec, INJECTED};
#[doc(inline)]
pub use wharf_core::qdisc::contract::check as check_qdisc;
