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
        "accepted",
        "send, forward",
        "Packets that senders handed over. It is the sum of `sent`, `failed`, `returned unsent` and, before the end, those inside.",
        "The rest of what was to be sent was dropped before the queue: see `dropped`.",
    ),
    term(
        "backlog",
        "show, top",
        "Packets that wait in the discipline, and those that the device had no room for.",
        "Near 0: the device keeps up. At the discipline's limit: it drops, or senders wait.",
    ),
    term(
        "batching",
        "send",
        "The compared runs: packets handed to the device many at a time, and one by one.",
        "A single run has no such heading.",
    ),
    term(
        "bit rate",
        "send, receive, forward",
        "Bits of frames per second, without preamble, gap and check sequence.",
        "A link of 1 Gbit/s carries 0.987 Gbit/s of frames of 1514 bytes, and 0.714 of 60.",
    ),
    term(
        "by DSCP",
        "receive",
        "The latency of packets with the same DSCP, behind its value.",
        "A discipline with bands keeps that of EF (46) short while others wait.",
    ),
    term(
        "by queue",
        "show",
        "Packets that each transmit queue sent, its rate, and the packets that failed.",
        "Very different: few flows, or some flows are much larger.",
    ),
    term(
        "by reason",
        "send, forward, show",
        "The packets of `dropped`, by reason.",
        "`wharf explain REASON` tells what happened and what to do.",
    ),
    term(
        "byte queue limit",
        "send, forward",
        "Bytes that the device may hold before they have left: the path adapts the limit to the device (BQL).",
        "It is as low as keeps the device busy. `none`: the device does not report when a frame has left.",
    ),
    term(
        "bytes",
        "receive, forward",
        "Bytes of all frames, from the Ethernet header on.",
        "Without preamble, gap and check sequence.",
    ),
    term(
        "cut before the queue",
        "forward",
        "Super-packets longer than the burst of `--rate`, segmented before they were queued.",
        "A longer `--burst` keeps them whole.",
    ),
    term(
        "discipline",
        "send, forward",
        "The discipline in front of the device, and its statistics that are not 0.",
        "`delay ns max`: the longest time that a packet has waited, ns. `new flows`: flows that came when their queue was empty. `marked`: packets with ECN marked in place of being dropped.",
    ),
    term(
        "doorbells",
        "show",
        "Notifications of the device: register writes, or system calls.",
        "Divide the packets sent by them: `wharf explain packets-per-doorbell`.",
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
        "failed",
        "send, forward, show",
        "Packets that failed in the device or behind it, or that the discipline dropped.",
        "`by reason` says why.",
    ),
    term(
        "faults injected",
        "send, receive, forward",
        "Faults that `--fault` has made, by kind.",
        "They are tests: the losses below are theirs.",
    ),
    term(
        "frames out",
        "send, receive, forward",
        "Frames of the pool that had not come back at the end.",
        "Anything but 0 is an error, and the exit code is 1.",
    ),
    term(
        "frames traced",
        "send, receive, forward",
        "Frames in the capture of `--trace`.",
        "Each with the time at which the device took it.",
    ),
    term("from", "forward, show", "The device that packets came from.", ""),
    term(
        "generated",
        "receive",
        "Packets of `wharf send`, which carry a number and a time.",
        "The rows below follow their numbers, by sender.",
    ),
    term(
        "in the device",
        "show",
        "Packets that the device has, and has not reported as sent.",
        "The byte queue limit bounds them.",
    ),
    term(
        "latency",
        "send, receive",
        "Time from the making of a packet until its arrival: half of the packets took no longer than p50, 99 of 100 no longer than p99.",
        "It needs both ends on one machine. Queues make it long: `--bql` and small queues keep them short.",
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
        "Usual on an interface that has just come up. The rates and the time of the summary leave them out, but for a capture without generated packets.",
    ),
    term(
        "packet rate",
        "send, receive, forward",
        "Packets per second, from the first packet to the last.",
        "The verdict says what bounded it.",
    ),
    term(
        "packets",
        "send, receive, forward",
        "Packets that the device took, or that arrived.",
        "To send: `sent` and those that failed in the device.",
    ),
    term(
        "packets by queue",
        "send",
        "Packets that each transmit queue took.",
        "Each flow goes by one queue: few flows fill few queues.",
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
        "pauses",
        "send",
        "Times of more than 100 ms in which packets were due and none was sent, by cause: process, device, source.",
        "What was due then beyond 100 ms leaves later, not as a burst. process: it was stopped, or had no processor.",
    ),
    term(
        "queue delay",
        "forward, show",
        "Time that packets waited in the discipline; by band, where it has bands.",
        "The time in the device is not in it: see `ring delay`. High: more arrives than leaves.",
    ),
    term(
        "received",
        "send, forward, show",
        "Packets that arrived at the other end, or at this end of the forwarder.",
        "Less than `sent`: some are under way, or lost.",
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
        "ring delay",
        "forward",
        "Time that packets were in the device, from the call that took them until it reported them as sent; by band, where there are bands.",
        "No discipline reorders what is there: the byte queue limit keeps it short. The row lacks where a device reports no departures.",
    ),
    term(
        "seconds",
        "send, receive, forward",
        "Time from the first packet to the last.",
        "Not the time for which the command ran.",
    ),
    term(
        "senders' waits",
        "send",
        "Times that a sender waited for room in the path, or for memory.",
        "Normal when senders are faster than the device: this is back-pressure, in place of drops.",
    ),
    term(
        "sent",
        "send, forward, show",
        "Packets that the device reported as sent; to a device without reports, those that it took.",
        "To `udp` it is no proof of arrival: a host that is not there is seldom told of.",
    ),
    term(
        "settings",
        "show",
        "Settings in force, as `wharf set` takes them.",
        "`wharf set rate=50mbit` changes one.",
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
    term("to", "forward, show", "The device that packets left by.", ""),
    term(
        "transmit time",
        "forward",
        "Time that it took a poller to transmit a packet while more came than left, on average.",
        "Above some microseconds the poller pays for the work of whoever receives there: filters, rules, a bridge. Give that another processor (RPS).",
    ),
    term(
        "unstamped",
        "receive",
        "Packets that `wharf send` did not generate: they have no number and no time.",
        "Some are usual: a host's neighbour discovery, multicast and router solicitations.",
    ),
    term(
        "when full",
        "forward",
        "Treatment of packets that come while the discipline is full.",
        "`wait` receives nothing meanwhile: packets stand in the ring in front. `drop-tail` and `drop-head` keep it short.",
    ),
    term(
        "wrong",
        "send",
        "Packets that arrived with other bytes, out of order, or not at all although none failed.",
        "Anything but 0 is an error, and the exit code is 1.",
    ),
];

/// Other names of rows: keys of the JSON, and rows of `wharf show`.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("backlog packets", "backlog"),
    ("bql", "byte queue limit"),
    ("codel drops", "discipline"),
    ("delay ns max", "discipline"),
    ("device packets", "in the device"),
    ("flows", "discipline"),
    ("lost before first", "lost"),
    ("marked", "discipline"),
    ("new flows", "discipline"),
    ("overlimit drops", "discipline"),
    ("rates", "packet rate"),
    ("rates over s", "seconds"),
    ("recent delay", "queue delay"),
    ("traffic", "of hosts themselves"),
    ("byte limit", "byte queue limit"),
    ("limit bytes", "byte queue limit"),
    ("compare", "batching"),
    ("drops", "dropped"),
    ("inside", "backlog"),
    ("gbps", "bit rate"),
    ("host packets", "of hosts themselves"),
    ("lately", "queue delay"),
    ("mbps", "bit rate"),
    ("mpps", "packet rate"),
    ("pool", "frames out"),
    ("qdisc", "discipline"),
    ("queues", "by queue"),
    ("returned", "returned unsent"),
    ("skipped", "records not sent"),
    ("streams", "generated"),
    ("trace", "frames traced"),
    ("waited", "queue delay"),
    ("waits", "senders' waits"),
];

const fn term(
    word: &'static str, commands: &'static str, meaning: &'static str, reading: &'static str,
) -> Term {
    Term { word, commands, meaning, reading }
}
