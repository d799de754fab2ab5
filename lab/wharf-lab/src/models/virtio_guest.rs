//! A virtual machine that sends to its host by virtio-net, as of 2017, and the effect of the time at which
//! transmitted buffers are freed.
//!
//! Three processors do one thing at a time: the *guest* (driver, stack and program), *vhost* (the host's
//! thread that carries packets of one queue pair both ways) and the *peer* (the program on the host).
//! Assumptions:
//! - a buffer counts as in flight until the driver frees it. [`Release`] sets that time, and the time at
//!   which sockets are told. With `upstream` a packet leaves its socket's account as it enters the ring, so
//!   that small queues and send buffers hold nothing back;
//! - notifications go by the event index (virtio 1.2, 2.7.7 and 2.7.10): a kick only if vhost sleeps, an
//!   interrupt only if the driver has asked for one, with NAPI after 3/4 of the buffers in flight
//!   (`virtqueue_enable_cb_delayed`);
//! - vhost serves a ring until it is empty or half a megabyte has passed (`VHOST_NET_WEIGHT`), then the other
//!   one;
//! - the host polls for an idle virtual processor for a while (`halt_poll_ns`), which costs as much as work;
//! - the programs are one thread on either side, with `epoll` (neper's `rr.c` and `stream.c`): a round of `epoll_wait`
//!   reports all sockets that are ready, and each gets one call. A socket that was read is written in the next round. A
//!   round trip lasts from asking until the answer is read;
//! - a UDP packet's completion wakes its program, at the cost of a round (`sock_wfree`). With `upstream` that happens in
//!   the call that sends;
//! - the peer acknowledges the data that its program has read. It acknowledges a message longer than a packet
//!   at once, by itself (`__tcp_ack_snd_check`), a shorter one with the answer.
//!
//! Streams are [`flows`](wharf_sim::flows). Linux 4.11 with the series, `drivers/net/virtio_net.c`,
//! `drivers/vhost/net.c`; facts in our own words. The model has no zero-copy, no second queue pair, and no
//! scheduler.

mod driver;
mod machine;
mod ring;
mod setup;

pub use setup::{Costs, Outcome, Release, Setup, Traffic};

use machine::Machine;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, VirtualClock};
use wharf_sim::harness;

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: packets were lost or doubled, or `goes_on` returned false.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = VirtualClock::default();
    let window = setup.time.window();
    let mut machine = Machine::new(setup);
    let mut agenda = Agenda::new(machine::SLOTS);
    machine.start(&mut agenda);
    let course =
        harness::settle_measure_drain(&mut machine, &mut agenda, &clock, window, Machine::totals, goes_on)?;
    machine.finish(course.before, course.after)
}
