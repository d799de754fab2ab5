//! `batching`: several packets in one call of the driver, 2007: IPoIB on `mthca`, and E1000, where there was no gain.
//!
//! The machine of 2007 is [`kernel`](crate::models::linux_qdisc) with one queue for all processors and no byte limit. Assumptions, that is, what a
//! gain can come from:
//! - a call of the driver costs what it costs whatever is in it: `post_ns` on the processor (the entry, the lock of the device, a
//!   doorbell over PCI), a completion that is asked for with the last packet of a call (`completion_ns` and an interrupt each), and
//!   `serve_ps` in the NIC, which fetches the first request of a post before it knows of the next;
//! - several packets wait where another processor runs the queue (a process that sends while acknowledgements let its packets go
//!   elsewhere, or several processes), or where the ring has stopped it;
//! - each packet costs the same with batching and without: nothing is gained but by sharing calls. With batching *when the queue
//!   wakes* only a softirq, which goes on after a stop, gives several.
//!
//! The far host is another of the same ([`kernel::far`](crate::models::linux_qdisc::far)): it receives on one processor, wakes a process for what it
//! sleeps for, and acknowledges when that has read. It holds back what batching could gain: with many processes it wakes and switches for a few
//! packets at a time.
//!
//! The windows of all processes together are what qdisc and ring hold and what is on its way meanwhile, since TCP grows until the qdisc
//! drops at its tail: IPoIB's holds 128 packets, so that many processes have a few packets each, and sleep and wake for them.
//!
//! A ring that has been full is left alone until half of it (IPoIB) or 32 descriptors of it (E1000) are free, and who runs the qdisc does
//! so for all others without a quota, as in 2007: with many processes, batching or not, a stop then gathers what the next run sends.
//!
//! Messages become packets by three rules: TCP fills packets (Nagle), TCP without delay and UDP send each message by itself. One parameter
//! is fitted, how long the NIC takes from one post to the next, to what one process gains at most; all else follows.
//! Not reproduced: 64 processes, which gain twice what was published; and that E1000 gains nothing, where 16 processes gain 11 % with the
//! least messages. How many processors there were is not said, and decides much: 1, 4, 16 and 64 processes gain at most 49, 21, 23 and 3 %
//! with two, 49, 49, 44 and 19 with three, 49, 48, 54 and 26 with four, and 48, 55, 53 and 36 with eight (`--set cpus=N`; published are
//! 49.5, 59.1, 33.4 and 12.4). Not modelled are windows that follow each drop (tried, with CUBIC's rules: a stream that has nothing under
//! way when the qdisc is full waits 200 ms for its timer, so that in runs as short as these fewer and fewer streams send, with windows the
//! larger), and the driver's lock, which IPoIB's completions take, too.
//!
//! Labels are `NIC/PROTOCOL/processes=N/size=BYTES`.

mod model;
mod rows;

use super::{Bench, Experiment, LabError, World};

/// The experiment.
#[derive(Debug)]
pub(super) struct BatchingApi;

impl Experiment for BatchingApi {
    fn name(&self) -> &'static str {
        "batching"
    }

    fn what(&self) -> &'static str {
        "several packets in one call of the driver, 1 to 64 processes: bandwidth, processor time per byte (2007)"
    }

    fn parameters(&self, _: World) -> &'static str {
        include_str!("../../parameters/batching.toml")
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<(), LabError> {
        rows::run(bench)
    }
}
