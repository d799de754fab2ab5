//! Queueing disciplines: they order the frames that wait between the lanes and the device, as in Linux's `net/sched`.
//!
//! One discipline per file. The owner of the queue is the only caller, so no discipline locks. A
//! [`QdiscContext`] comes with each call: the clock, the packets' bytes, ECN marks, and the one way to lose a
//! frame. [`RootQdisc`] makes it.
//!
//! # Invariants
//! 1. Conservation: frames taken from `from` = frames moved to `to` + frames dropped by
//!    [`QdiscContext::drop`] + frames inside. The debug build of [`RootQdisc`] checks it after each call
//!    and names the discipline.
//! 2. Order: frames of one flow in one band leave in the order in which they came. A discipline that does
//!    not look at flows keeps the order of a band.
//! 3. Back-pressure is advice to senders: frames in their lanes are still taken, or an urgent packet
//!    would be stuck behind bulk ones in its own lane. So a discipline stores its limit and one lane per
//!    sender ([`Qdisc::reserve`]).
//! 4. After `reserve` no call allocates.
//!
//! `contract::check` tries these on any discipline.

mod backpressure;
mod buffers;
mod built_in;
mod codel;
mod context;
#[doc(hidden)]
pub mod contract;
mod discipline;
mod edt;
mod fifo;
mod flow_list;
mod fq_codel;
mod prio;
mod rate_group;
mod registry;
mod root;
mod slab;
mod store;
mod tbf;

pub use crate::dscp::{DscpBands, band_of_bytes, set_priority};
pub use crate::offload::{wire_bytes, wire_packets};
pub use backpressure::{Backpressure, DROP_HEAD, WhenFull};
pub use codel::CODEL;
pub use context::{Dropped, QdiscContext};
pub use discipline::{Limit, Qdisc};
pub use edt::{EXPIRED, Edt, EdtOptions, FLOW_FULL, HORIZON};
pub use fifo::{Fifo, FifoLimit};
pub use fq_codel::{FLOWS_MAX, FqCodel, FqCodelOptions, OVERLIMIT};
pub use prio::Prio;
pub use rate_group::RateGroup;
pub use registry::{
    Order, QUEUE_PACKETS, QUEUE_PACKETS_MAX, QdiscKind, QdiscRegistry, QdiscSetup, QdiscSpec,
};
pub use root::{QDISC_CHANGED, RootQdisc};
pub use tbf::{Rate, TBF_BURST_BYTES_MAX, TBF_PACKETS_MAX, TBF_RATE_MAX, Tbf};
