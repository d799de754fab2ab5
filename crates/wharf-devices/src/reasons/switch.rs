//! The reasons of a switch, and of what stands at its ports, sorted by word.

use super::{Reason, row};

/// The rows, sorted by word.
pub(super) static ROWS: &[Reason] = &[
    row(
        "bad-address",
        &["switch"],
        "The source address of the frame was a group's or 0, or the frame ended within its header or tag.",
        "Nothing, if it was meant; else look what sends such frames (`tcpdump -e`).",
    ),
    row(
        "flood-limit",
        &["switch"],
        "More came in by one port of a switch for all, or for stations that it does not know, than it makes copies of (`--flood-limit`).",
        "Look for a loop: two ports that lead to one network. Otherwise raise `--flood-limit`.",
    ),
    row(
        "link-local",
        &["switch"],
        "The frame was for the next bridge alone (LLDP, pause, LACP): no switch sends it on.",
        "Nothing: that is as it should be.",
    ),
    row(
        "no-memory",
        &["switch"],
        "There was no memory for the copy of a frame that a switch sends to several ports, or for the segments of a super-packet.",
        "Give the run more memory (`--frames`), or send less to all.",
    ),
    row(
        "no-port",
        &["switch"],
        "No other port of the switch is in the frame's VLAN.",
        "Nothing, if that was meant; else see `--vlan`.",
    ),
    row(
        "other-vlan",
        &["switch"],
        "The frame had the tag of a VLAN that its port is not in, or none where all frames have one, or one where none has.",
        "See `--vlan`, and the VLANs of what is at the port.",
    ),
    row(
        "same-port",
        &["switch"],
        "The frame's destination was seen last at the port that the frame came in by.",
        "Nothing: it has arrived. If many of a station's frames are lost so, another one has its address.",
    ),
    row(
        "spoofed",
        &["switch", "tap", "vhost-user"],
        "The frame had a source address that another port of the switch has for itself, or that its own end may not use (`mac=`, `ip=`).",
        "Look what the guest at this end does; if it may use the address, give it the key.",
    ),
];
