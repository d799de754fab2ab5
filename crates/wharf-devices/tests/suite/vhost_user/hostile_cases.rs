//! The cases of drivers that break the rules: messages, shared memory, virtqueues.

use super::guest::Pair;
use super::peer::*;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use wharf_devices::virtio::feature;

/// A case of messages: its name, the words of the device's error, and the driver's part once it has connected.
pub type Case = (&'static str, &'static str, fn(&mut Peer));

pub const MEMORY: u64 = MEMORY_BYTES as u64;

/// 8 of these leave a process few addresses.
const ENDLESS: u64 = (1 << 41) - (1 << 32);

pub fn region(guest: u64, bytes: u64, user: u64, at: u64) -> [u64; 4] {
    [guest, bytes, user, at]
}

fn share(peer: &mut Peer, regions: &[[u64; 4]]) {
    peer.negotiate(0);
    let fds = vec![peer.fd(); regions.len()];
    peer.send(SET_MEM_TABLE, &table(regions), &fds);
}

/// Sets up virtqueue 0 with this size and these places.
pub fn set_up(peer: &mut Peer, size: u32, places: [u64; 3]) {
    peer.send(SET_VRING_NUM, &state(0, size), &[]);
    peer.send(SET_VRING_ADDR, &addresses(0, places[0], places[1], places[2]), &[]);
    peer.send(SET_VRING_KICK, &words(&[0]), &[event().as_fd().as_raw_fd()]);
}

pub const GOOD: [u64; 3] = [USER, USER + 0x2000, USER + 0x1000];

pub fn messages() -> Vec<Case> {
    vec![
        ("a header cut short", "a message was cut short", |peer| peer.raw(&[1, 0, 0, 0, 1], &[])),
        ("a body cut short", "a message was cut short", |peer| {
            peer.raw(&message(SET_FEATURES, 1, &[0; 8])[..15], &[]);
        }),
        ("a body that never comes", "a message was cut short", |peer| {
            peer.raw(&message(SET_FEATURES, 1, &[0; 8])[..12], &[]);
        }),
        ("a message longer than there are", "message of request ", |peer| {
            let mut header = message(SET_FEATURES, 1, &[]);
            header[8..].copy_from_slice(&5000u32.to_ne_bytes());
            peer.raw(&header, &[]);
        }),
        ("a length of 4 GiB", "message of request ", |peer| {
            let mut header = message(SET_FEATURES, 1, &[]);
            header[8..].copy_from_slice(&u32::MAX.to_ne_bytes());
            peer.raw(&header, &[]);
        }),
        ("a request that there is not, of another version", "message of request 999", |peer| {
            peer.raw(&message(999, 3, &[]), &[]);
        }),
        ("a request that there is not, longer than there are", "message of request 999", |peer| {
            let mut header = message(999, 1, &[]);
            header[8..].copy_from_slice(&5000u32.to_ne_bytes());
            peer.raw(&header, &[]);
        }),
        ("another version", "message of request ", |peer| peer.raw(&message(GET_FEATURES, 3, &[]), &[])),
        ("a reply to nothing", "message of request ", |peer| {
            peer.raw(&message(SET_FEATURES, 5, &[0; 8]), &[])
        }),
        ("to half enable", "message of request ", |peer| {
            peer.negotiate(0);
            peer.send(SET_VRING_ENABLE, &state(0, 2), &[]);
        }),
    ]
}

/// A case of requests without files: its name, the words of the device's error, and the requests with their bodies.
pub type RequestCase = (&'static str, &'static str, Vec<(u32, Vec<u8>)>);

pub fn requests() -> Vec<RequestCase> {
    let protocol = || (SET_PROTOCOL_FEATURES, words(&[0]));
    let enable = |body: Vec<u8>| vec![(SET_VRING_ENABLE, body)];
    let invalid = "message of request 18: invalid message";
    vec![
        ("a body where there is none", "message of request ", vec![(GET_FEATURES, vec![0; 8])]),
        ("no body where there is one", "message of request ", vec![(SET_FEATURES, vec![])]),
        (
            "features that were not offered",
            "features 0x8000000000000000, which were not offered",
            vec![(SET_FEATURES, words(&[1 << 63]))],
        ),
        (
            "protocol features that were not offered",
            "protocol features 0x2000, which were not offered",
            vec![(SET_PROTOCOL_FEATURES, words(&[1 << 13]))],
        ),
        ("to enable what there is not before all else", "virtqueue 5: there are 2", enable(state(5, 1))),
        ("to enable, and no word of what", invalid, enable(vec![])),
        ("to enable, and half of it", invalid, enable(vec![0; 4])),
        ("to enable, and more than that", invalid, enable(vec![0; 64])),
        (
            "to half enable before anything else",
            "message of request 18",
            vec![(SET_OWNER, vec![]), protocol(), (SET_VRING_ENABLE, state(0, 2))],
        ),
        (
            "to enable too early what there is not",
            "virtqueue 7: there are 2",
            vec![protocol(), (SET_VRING_ENABLE, state(7, 1))],
        ),
    ]
}

pub fn files_of_memory() -> Vec<Case> {
    vec![
        ("regions and no files", "message of request ", |peer| {
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, MEMORY, USER, 0)]), &[]);
        }),
        ("fewer files than regions", "message of request ", |peer| {
            let fd = peer.fd();
            let regions = [region(GUEST, 4096, USER, 0), region(GUEST + 4096, 4096, USER + 4096, 4096)];
            peer.send(SET_MEM_TABLE, &table(&regions), &[fd]);
        }),
        ("more files than regions", "message of request ", |peer| {
            let fd = peer.fd();
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, MEMORY, USER, 0)]), &[fd, fd]);
        }),
        ("more files than a message may have", "more than 32 descriptors", |peer| {
            let fds = [peer.fd(); 100];
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, MEMORY, USER, 0)]), &fds);
        }),
        ("files where none belong", "message of request ", |peer| {
            let fd = peer.fd();
            peer.send(GET_FEATURES, &[], &[fd]);
        }),
        ("a count of regions beyond the message", "message of request ", |peer| {
            let fds = [peer.fd(); 8];
            let mut body = table(&[region(GUEST, MEMORY, USER, 0)]);
            body[0] = 8;
            peer.send(SET_MEM_TABLE, &body, &fds);
        }),
        ("a socket as memory", "a region of shared memory: ", |peer| {
            peer.negotiate(0);
            let fd = peer.stream.as_raw_fd();
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, MEMORY, USER, 0)]), &[fd]);
        }),
        ("a file on a disk as memory", "its file is not in memory", |peer| {
            wharf_devices::vhost_user::install_sigbus_handler().unwrap();
            peer.negotiate(0);
            let file = file_in(env!("CARGO_TARGET_TMPDIR").as_ref(), MEMORY);
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, MEMORY, USER, 0)]), &[file.as_raw_fd()]);
        }),
        ("more memory than there can be", "bytes of shared memory: 2199023255552 at most", |peer| {
            wharf_devices::vhost_user::install_sigbus_handler().unwrap();
            peer.negotiate(0);
            let regions = (0..8).map(|n| region(GUEST + n * ENDLESS, ENDLESS, USER + n * ENDLESS, 0));
            let (file, regions) = (unsealed(ENDLESS), regions.collect::<Vec<_>>());
            peer.send(SET_MEM_TABLE, &table(&regions), &[file.as_raw_fd(); 8]);
        }),
        ("a file that is only read as memory", "a region of shared memory: ", |peer| {
            peer.negotiate(0);
            let file = File::open(std::env::current_exe().unwrap()).unwrap();
            peer.send(SET_MEM_TABLE, &table(&[region(GUEST, 4096, USER, 0)]), &[file.as_raw_fd()]);
        }),
    ]
}

pub fn regions_of_memory() -> Vec<Case> {
    vec![
        ("no regions at all", "message of request ", |peer| peer.send(SET_MEM_TABLE, &table(&[]), &[])),
        ("a region of no bytes", "message of request ", |peer| share(peer, &[region(GUEST, 0, USER, 0)])),
        (
            "regions at the same guest address",
            "two regions of the shared memory overlap at 0x10001000",
            |peer| {
                share(peer, &[region(GUEST, 8192, USER, 0), region(GUEST + 4096, 8192, USER + MEMORY, 8192)]);
            },
        ),
        (
            "regions at the same user address",
            "two regions of the shared memory overlap at 0x70000000",
            |peer| {
                share(peer, &[region(GUEST, 8192, USER, 0), region(GUEST + MEMORY, 8192, USER, 8192)]);
            },
        ),
        ("a region beyond its file", "bytes of a file that has 4194304", |peer| {
            share(peer, &[region(GUEST, MEMORY + 1, USER, 0)]);
        }),
        ("a region that begins beyond its file", "bytes of a file that has", |peer| {
            share(peer, &[region(GUEST, 4096, USER, 1 << 40)]);
        }),
        ("an offset that overflows", "message of request ", |peer| {
            share(peer, &[region(GUEST, 8192, USER, u64::MAX - 4096)])
        }),
        ("guest addresses that overflow", "message of request ", |peer| {
            share(peer, &[region(u64::MAX - 10, 4096, USER, 0)])
        }),
        ("user addresses that overflow", "message of request ", |peer| {
            share(peer, &[region(GUEST, 4096, u64::MAX - 10, 0)])
        }),
    ]
}

/// A case of a virtqueue that cannot be: its name, the words of the device's error, features, size and places.
pub type QueueCase = (&'static str, &'static str, u64, u32, [u64; 3]);

pub const QUEUES: [QueueCase; 9] = [
    ("a size of 0", "virtqueue 0: it cannot have 0 descriptors", 0, 0, GOOD),
    ("a size of 65536", "virtqueue 0: it cannot have 65536 descriptors", 0, 65536, GOOD),
    ("a split ring of 100", "a split ring cannot have 100 descriptors", 0, 100, GOOD),
    (
        "descriptors outside",
        "its descriptor area does not lie within",
        0,
        256,
        [USER + MEMORY - 4080, GOOD[1], GOOD[2]],
    ),
    (
        "an available ring outside",
        "its driver area does not lie within",
        0,
        256,
        [GOOD[0], GOOD[1], USER + MEMORY - 516],
    ),
    ("a used ring outside", "its device area does not lie within", 0, 256, [GOOD[0], USER - 4, GOOD[2]]),
    ("descriptors not aligned", "message of request ", 0, 256, [USER + 8, GOOD[1], GOOD[2]]),
    (
        "rings at the end of all addresses",
        "does not lie within",
        0,
        256,
        [u64::MAX - 15, u64::MAX - 3, u64::MAX - 1],
    ),
    (
        "a packed ring outside",
        "its descriptor area does not lie within",
        feature::PACKED,
        32768,
        [USER + MEMORY - 4096, GOOD[1], GOOD[2]],
    ),
];

fn event() -> wharf_sys::event::EventFd {
    wharf_sys::event::EventFd::new().unwrap()
}

pub fn messages_of_queues() -> Vec<Case> {
    vec![
        ("a virtqueue that there is not", "virtqueue 2: there are 2", |peer| {
            peer.send(SET_VRING_NUM, &state(2, 16), &[]);
        }),
        ("virtqueue 4294967295", "virtqueue 4294967295: there are 2", |peer| {
            peer.send(SET_VRING_BASE, &state(u32::MAX, 0), &[]);
        }),
        ("to stop a virtqueue that there is not", "virtqueue 9: there are 2", |peer| {
            peer.send(GET_VRING_BASE, &state(9, 0), &[]);
        }),
        ("a kick for a virtqueue that there is not", "virtqueue 255: there are 2", |peer| {
            peer.send(SET_VRING_KICK, &words(&[255]), &[event().as_fd().as_raw_fd()]);
        }),
        ("a kick that is a file", "virtqueue 0: kick: /dev/null is no eventfd", |peer| {
            let file = File::open("/dev/null").unwrap();
            peer.send(SET_VRING_KICK, &words(&[0]), &[file.as_raw_fd()]);
        }),
        ("a call that is a socket", "is no eventfd", |peer| {
            let (socket, _) = UnixStream::pair().unwrap();
            peer.send(SET_VRING_CALL, &words(&[0]), &[socket.as_raw_fd()]);
        }),
        ("a kick without a file", "message of request ", |peer| peer.send(SET_VRING_KICK, &words(&[0]), &[])),
        ("a kick with two", "message of request ", |peer| {
            let fd = peer.fd();
            peer.send(SET_VRING_KICK, &words(&[0]), &[fd, fd]);
        }),
        ("addresses with a flag that there is not", "message of request 9", |peer| {
            let mut body = addresses(0, GOOD[0], GOOD[1], GOOD[2]);
            body[4] = 2;
            peer.send(SET_VRING_ADDR, &body, &[]);
        }),
        ("a packed ring resumed where it is not", "cannot be resumed at 0x8105", |peer| {
            peer.negotiate(feature::PACKED);
            assert!(peer.share());
            peer.send(SET_VRING_BASE, &state(0, 0x8105), &[]);
            set_up(peer, 256, GOOD);
        }),
    ]
}

/// A case of a virtqueue that works until the driver's part: name, features, the words of the error, the part. The
/// connection stays.
pub type RingCase = (&'static str, u64, &'static str, fn(&mut Peer, &mut Pair));

pub fn rings() -> Vec<RingCase> {
    let (split, packed) = (feature::INDIRECT, feature::INDIRECT | feature::PACKED);
    vec![
        ("an available index that jumps", split, "available index 100 is 100 beyond", |_, pair| {
            pair.send_queue.place.areas()[1].store_u16(2, 100);
        }),
        ("a descriptor that there is not", split, "descriptor 999 of a table of 16", |_, pair| {
            let available = pair.send_queue.place.areas()[1];
            available.store_u16(4, 999);
            available.store_u16(2, 1);
        }),
        ("a chain that comes back to itself", split, "a chain of more than 16 descriptors", |_, pair| {
            let [descriptors, available, _] = pair.send_queue.place.areas();
            descriptors.store_u64(0, GUEST);
            descriptors.store_u64(8, 64 | 1 << 32);
            available.store_u16(2, 1);
        }),
        ("an address outside", split, "64 bytes at 0x1234 do not lie within", |_, pair| {
            let [descriptors, available, _] = pair.send_queue.place.areas();
            descriptors.store_u64(0, 0x1234);
            descriptors.store_u64(8, 64);
            available.store_u16(2, 1);
        }),
        ("a packed chain without an end", packed, "a chain of more than 16 descriptors", |_, pair| {
            let ring = pair.send_queue.place.areas()[0];
            for at in 0..16 {
                ring.store_u64(16 * at, GUEST);
                ring.store_u64(16 * at + 8, 8 | 0x81 << 48);
            }
        }),
        ("a packed address outside", packed, "16 bytes at 0x103ffff8 do not lie within", |_, pair| {
            let ring = pair.send_queue.place.areas()[0];
            ring.store_u64(0, GUEST + MEMORY - 8);
            ring.store_u64(8, 16 | 0x80 << 48);
        }),
        ("a nested indirect table", packed, "an indirect table inside an indirect table", |peer, pair| {
            let (ring, table) = (pair.send_queue.place.areas()[0], MEMORY_BYTES - 64);
            peer.view().store_u64(table + 8, 16 | 4 << 48);
            ring.store_u64(0, GUEST + table as u64);
            ring.store_u64(8, 16 | 0x84 << 48);
        }),
    ]
}
