//! The transmit path of Linux 3.18 with super-packets: TCP streams and probes of high priority, one queue.
//!
//! Streams put super-packets into `pfifo_fast`. Its runner dequeues them, one or a bulk within the byte
//! limit. They are segmented behind the qdisc (GSO) or by the NIC (TSO), and packets go to the driver until
//! that is stopped. The rest is requeued and goes first: a packet of high priority waits behind it, and
//! behind the packets in the NIC. Completions and acknowledgements come with the same interrupt, a least time
//! after the one before. (`net/core/dev.c`, `net/sched/sch_generic.c`, `ixgbe`; facts in our own words.)
//!
//! `Prio`, `Bql` and the pool are the path's own, the streams are [`flows`](wharf_sim::flows). The kernel's
//! driver may stop between two packets of one super-packet. Wharf's own path does not have that: it segments
//! before it hands over.

mod host;
mod nic;
mod setup;
mod xmit;

pub use setup::{Costs, Offload, Outcome, Probe, Setup};

use host::Host;
use std::sync::Arc;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, VirtualClock};
use wharf_sim::harness;

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let mut host = Host::new(setup, &clock)?;
    let mut agenda = Agenda::new(host::SLOTS);
    host.start(&mut agenda);
    let window = host.setup.time.window();
    let course =
        harness::settle_measure_drain(&mut host, &mut agenda, &clock, window, Host::totals, goes_on)?;
    host.finish(course.before, course.after)
}
