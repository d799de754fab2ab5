//! `batching`: several packets in one call of the driver, 2007: IPoIB on `mthca`, and E1000, which gained
//! nothing.
//!
//! The machine of 2007 is [`linux_qdisc`](crate::models::linux_qdisc) with one queue for all processors and
//! no byte limit. Assumptions on the sources of a gain:
//! - a call of the driver has a fixed cost: `post_ns` on the processor (the entry, the lock of the device, a
//!   doorbell over PCI), a completion asked for with the last packet of a call (`completion_ns` and an
//!   interrupt each), and `serve_ps` in the NIC, which fetches the first request of a post before it knows of
//!   the next;
//! - several packets wait if another processor runs the queue (a process sends while acknowledgements release
//!   its packets elsewhere, or there are several processes), or if the ring has stopped it;
//! - each packet costs the same with batching and without: a gain comes only from sharing calls. With
//!   batching *when the queue wakes* only a softirq, which goes on after a stop, hands over several.
//!
//! The far host is another of the same ([`linux_qdisc::far`](crate::models::linux_qdisc::far)). It receives
//! on one processor, wakes sleeping processes, and acknowledges when they have read. It limits the gain of
//! batching: with many processes it wakes and switches for a few packets at a time.
//!
//! The windows of all processes together are the packets that qdisc and ring hold, and those in flight
//! meanwhile, since TCP grows until the qdisc drops at its tail. IPoIB's qdisc holds 128 packets, so that
//! many processes have a few packets each, and sleep and wake for them.
//!
//! A ring that has been full rests until half of it (IPoIB) or 32 descriptors of it (E1000) are free. The
//! runner of the qdisc runs it for all others without a quota, as in 2007. With many processes a stop
//! therefore gathers the packets that the next run sends, with batching or not.
//!
//! Messages become packets by three rules: TCP fills packets (Nagle); TCP without delay and UDP send each
//! message by itself. One parameter is fitted, the NIC's time from one post to the next, to the greatest gain
//! of one process; all else follows. Not reproduced: 64 processes, which gain twice the published figure; and
//! that E1000 gains nothing, where 16 processes gain 11 % with the least messages. The published
//! ranges are over two machines, of 2 and of 8 processors, and so are ours: 1, 4, 16 and 64 processes gain at most
//! 49, 21, 23 and 3 % with two, and 48, 55, 53 and 36 with eight (published are 49.5, 59.1, 33.4 and 12.4). Two things are not modelled. One is windows that follow
//! each drop (tried, with CUBIC's rules: a stream that has nothing in flight when the qdisc is full waits 200
//! ms for its timer; in runs as short as these fewer and fewer streams send, with larger windows). The other
//! is the driver's lock, which IPoIB's completions take, too.
//!
//! `host.rs` has the comparison on this machine, over any device.
//!
//! Labels are `NIC/PROTOCOL/processes=N/cpus=N/size=BYTES`.

mod host;
mod model;
mod rows;

use super::{Experiment, World};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "batching",
    what: "several packets in one call of the driver, 1 to 64 processes: bandwidth, processor time per byte (2007)",
    has_device: true,
    worlds: &[
        (World::Model, &[include_str!("../../scenarios/batching.toml")], rows::run),
        (World::Host, &[include_str!("../../parameters/batching-host.toml")], host::run),
    ],
};
