//! Rows of summaries, and counters, that are no drops.

/// A row of a summary, or a key of the JSON.
#[derive(Debug)]
pub(super) struct Term {
    /// Name as in the summary.
    pub(super) word: &'static str,
    /// Commands that show it.
    pub(super) commands: &'static str,
    pub(super) meaning: &'static str,
    /// Meaning of a high or a low value.
    pub(super) reading: &'static str,
}

pub(super) const TERMS: &[Term] = &[
    term(
        "byte queue limit",
        "send, forward",
        "Bytes that the device may hold before they have left: the path adapts the limit to the device (BQL).",
        "It is as low as keeps the device busy. `none`: the device does not report when a frame has left.",
    ),
    term(
        "cut before the queue",
        "forward",
        "Super-packets longer than the burst of `--rate`, segmented before they were queued.",
        "A longer `--burst` keeps them whole.",
    ),
    term(
        "dropped",
        "send, receive, forward",
        "Packets that failed or were dropped: at the sender, in the discipline, in the device, or before they were received.",
        "The rows below say why: `wharf explain REASON`.",
    ),
    term(
        "duplicated",
        "receive",
        "Packets that arrived with a number that had arrived before.",
        "Not 0: two paths lead here, or the capture was replayed twice.",
    ),
    term(
        "frames out",
        "send, receive, forward",
        "Frames of the pool that had not come back at the end.",
        "Anything but 0 is an error, and the exit code is 1.",
    ),
    term(
        "lost",
        "receive",
        "Generated packets, up to the highest number that arrived, that did not arrive.",
        "Compare with `dropped`: those were lost at this receiver, the others before it.",
    ),
    term(
        "not in the trace",
        "send, receive, forward",
        "Frames that the capture of `--trace` lacks: the disk was too slow or full.",
        "Write to a faster disk.",
    ),
    term(
        "of hosts themselves",
        "receive",
        "Unstamped packets that hosts send by themselves: ARP, ICMPv6 neighbour and listener discovery, IGMP, LLDP.",
        "Usual on an interface that has just come up. The rates and the time of the summary leave them out.",
    ),
    term(
        "packets per batch",
        "receive",
        "Packets that one call to the device received, on average.",
        "Near 1: the receiver keeps up. High: packets wait for it, and it takes many at once.",
    ),
    term(
        "packets per doorbell",
        "send, forward",
        "Packets for each notification of the device (a register write, or a system call), on average.",
        "Higher costs less per packet. Near 1 at a low rate is right: no packet waits for another.",
    ),
    term(
        "records not sent",
        "send",
        "Records of the capture that are no frame, by reason.",
        "See `wharf explain empty` and `wharf explain too-long`.",
    ),
    term(
        "reordered",
        "receive",
        "Packets that arrived after one that was sent later by the same sender.",
        "Not 0: several queues or paths lie between, which do not keep flows together.",
    ),
    term(
        "requeues",
        "send, forward",
        "Packets that the device had no room for when they were offered. They went first at the next call; none was lost.",
        "Normal when senders are faster than the device: its ring was full that often.",
    ),
    term(
        "returned unsent",
        "send, forward",
        "Packets that were still queued when the run ended, and came back to the pool.",
        "A signal, or the end of the time, came before the queue was empty.",
    ),
    term(
        "senders' waits",
        "send",
        "Times that a sender waited for room in the path, or for memory.",
        "Normal when senders are faster than the device: this is back-pressure, in place of drops.",
    ),
    term(
        "still under way",
        "send",
        "Packets sent that had not arrived when a signal, or the end of the time, ended the run.",
        "No loss: they were on the wire.",
    ),
    term(
        "timing error",
        "send",
        "Time at which a packet was handed to the device minus the time at which it was due.",
        "Growing with the run: the device or the sender cannot keep the rate.",
    ),
    term(
        "unstamped",
        "receive",
        "Packets that `wharf send` did not generate: they have no number and no time.",
        "Some are usual: a host's neighbour discovery, multicast and router solicitations.",
    ),
    term(
        "wrong",
        "send",
        "Packets that arrived with other bytes, out of order, or not at all although none failed.",
        "Anything but 0 is an error, and the exit code is 1.",
    ),
];

const fn term(
    word: &'static str, commands: &'static str, meaning: &'static str, reading: &'static str,
) -> Term {
    Term { word, commands, meaning, reading }
}
