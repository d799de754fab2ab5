//! `verbs:DEVICE[,port=1,gid=auto,ring=1024]` to receive, with `[,peer=GID,batch=on|off]` to send.

use super::options::options;
use super::{Verbs, VerbsOptions};
use wharf_core::device::DeviceError;
use wharf_core::options::Key;
use wharf_devices::reasons::Counted;
use wharf_devices::requirements::Requirement;
use wharf_devices::spec::{Can, DeviceSpec, Direction, Kind, Opened, Opening, Place};

/// The folder of the files by which programs use RDMA devices.
const FILES: Requirement = Requirement::File { path: "/dev/infiniband", mend: "sudo modprobe ib_uverbs" };

/// The words by which it counts frames.
const REASONS: &[Counted] = &[
    Counted::Own {
        word: "flushed",
        what_happened: "The queue pair was in error, and the device gave the frame back unsent.",
        what_to_do: "See why: a line on standard error names the error. By default the path opens the device anew (`--on-gone reopen`).",
    },
    Counted::As { word: "link-down", device: "packet" },
    Counted::Own {
        word: "malformed",
        what_happened: "The device reported a datagram without a route header, or longer than the memory that was posted for it.",
        what_to_do: "Update the driver, or its provider library.",
    },
    Counted::As { word: "not-attached", device: "packet" },
    Counted::As { word: "refused", device: "packet" },
    Counted::Own {
        word: "send-error",
        what_happened: "The device could not send the frame: there is no way to the peer, or the request was wrong. Its queue pair is in error.",
        what_to_do: "Check addresses and routes of the interface (`ip address`, `ip route`). By default the path opens the device anew.",
    },
    Counted::As { word: "super-packet", device: "xdp" },
    Counted::Own {
        word: "too-long",
        what_happened: "The frame's payload is longer than a datagram of the port: 1024, 2048 or 4096 bytes.",
        what_to_do: "Raise the MTU of the interface below the port (`ip link set NAME mtu 4200`), or send shorter frames.",
    },
    Counted::As { word: "too-many-chunks", device: "packet" },
    Counted::As { word: "too-short", device: "packet" },
    Counted::Own {
        word: "truncated",
        what_happened: "The datagram was shorter than its header.",
        what_to_do: "Look which program sends to this queue pair: it is none of Wharf's.",
    },
    Counted::As { word: "unfinished-checksum", device: "xdp" },
    Counted::Own {
        word: "unresolved",
        what_happened: "No peer is known by the frame's destination address, or the peer does not answer when it is asked for its queue pair.",
        what_to_do: "Start the receiver there, or name the peer (`peer=GID`); a firewall may stop UDP port 24791.",
    },
];

/// The kind of device.
pub static KIND: Kind = Kind {
    needs: "libibverbs, /dev/infiniband/uverbs*, memory that may be locked",
    requirements: &[FILES],
    place: Place::Device("DEVICE"),
    keys: &[
        Key::number("port", 1..=255, "1 to 255", "1", "Port of the device").when("2, for the second port of an adapter that has both in one device"),
        Key::forms("gid", "auto, N", "auto", "Entry of the port's table of GIDs, by which peers name this end: the first of the peer's kind, or of IPv4, or the entry N").when("N, if the port's interface has several addresses, or for a second end that receives"),
        Key::number("ring", 16..=16384, "16 to 16384 requests", "1024", "Work requests of each queue, rounded up to a power of two").when("Higher, if datagrams are lost while the receiver is busy; lower, to bound what waits behind the byte limit"),
    ],
    tx_keys: &[
        Key::forms("peer", "GID, GID/QPN", "none", "The peer that frames go to: its GID, an IPv6 or IPv4 address on RoCE, and its queue pair if it is not to be asked for. Without one, frames go to ends that have sent something, by their Ethernet address").when("Always, at the end that sends first; GID/QPN where a firewall stops UDP port 24791"),
        Key::on_off("batch", "Frames that leave together are linked work requests of one call, with one completion").when("off, to see what that gains"),
    ],
    check: |spec| options(spec).map(drop),
    can: Can::BOTH,
    doctor: super::doctor::DOCTOR,
    reasons: REASONS,
    ..Kind::new(
        "verbs",
        "verbs:DEVICE[,port=1,gid=auto|N,ring=N] to receive, with [,peer=GID|GID/QPN,batch=on|off] to send",
        "datagrams of an RDMA device, as IPoIB's",
        open,
    )
};

fn open(spec: &DeviceSpec, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    let options = VerbsOptions {
        sends: opening.direction != Direction::Receive,
        receives: opening.direction != Direction::Send,
        pool_shared_by: opening.pool_shared_by,
        ..options(spec)?
    };
    let device = Verbs::open(spec.place(), options)?;
    Ok(vec![match opening.direction {
        Direction::Send => Opened::tx(device),
        Direction::Receive => Opened::rx(device),
        Direction::Both => Opened::duplex(device),
    }])
}
