//! A virtual machine that sends to its host by virtio-net, as of 2017: when transmitted buffers are freed, and what that decides.
//!
//! Three processors, each with one thing at a time: the *guest* (driver, stack and program), *vhost* (the host's thread that carries
//! packets of one queue pair both ways) and the *peer* (the program on the host). Assumptions:
//! - a buffer counts as under way until the driver frees it. [`Release`] says when that is, and whether sockets are told before: with
//!   `upstream` a packet is taken from its socket as it enters the ring, so that small queues and send buffers hold nothing back;
//! - notifications go by the event index (virtio 1.2, 2.7.7 and 2.7.10): a kick only where vhost has gone to sleep, an interrupt
//!   only where the driver has asked for one, with NAPI after 3/4 of what is under way (`virtqueue_enable_cb_delayed`);
//! - vhost serves a ring until it is empty or half a megabyte has passed (`VHOST_NET_WEIGHT`), then the other one;
//! - an idle virtual processor is polled for by its host for a while (`halt_poll_ns`), which costs as much as work;
//! - the peer acknowledges what its program has read. A message longer than a packet is acknowledged at once, by itself, as
//!   `__tcp_ack_snd_check` has it; a shorter one with the answer.
//!
//! Streams are [`flows`](wharf_sim::flows). Linux 4.11 with the series, `drivers/net/virtio_net.c`, `drivers/vhost/net.c`; facts in our own
//! words. Not there: copies that are avoided, several queue pairs, a scheduler.

mod driver;
mod machine;
mod outcome;
mod peer;
mod ring;
mod setup;
mod vhost;

pub use outcome::Outcome;
pub use setup::{Costs, Release, Setup, Traffic};

use machine::Machine;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, VirtualClock};
use wharf_sim::harness;

/// Runs a setup; what came of it. `goes_on` is asked now and then.
///
/// # Errors
/// [`RunError`]: packets were lost or doubled, or it was not to go on.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = VirtualClock::default();
    let window = (setup.settle_ns, setup.measure_ns);
    let mut machine = Machine::new(setup);
    let mut agenda = Agenda::new(machine::SLOTS);
    machine.start(&mut agenda);
    let course = harness::settle_measure_drain(&mut machine, &mut agenda, &clock, window, goes_on)?;
    machine.finish(course.before, course.after)
}
