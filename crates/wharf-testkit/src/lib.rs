//! Doubles and rigs for the tests of several crates, by name. Those of one crate stand in its `tests/`.
//!
//! A test crate under `tests/` sees the types that this crate sees. Unit tests inside `src/` of `wharf-mem`,
//! `wharf-packet` and `wharf-core` do not: cargo builds those crates a second time for them.
//!
//! | device | is for |
//! |---|---|
//! | [`Gate`](gate::Gate) | a ring that completes frames when the test allows it, and fails, lies or panics on request |
//! | [`Watched`](wrappers::Watched) | a wrapper that counts calls which break the doorbell rule |
//! | [`Recorder`](wrappers::Recorder) | a wrapper that records the headers of the frames taken |
//! | [`Interrupted`](wrappers::Interrupted) | a wrapper that runs a callback within a reap |
//! | [`Helpless`](wrappers::Helpless) | a wrapper that takes a device's offloads away |
//!
//! | clock or thread | is for |
//! |---|---|
//! | [`TestClock`](threads::TestClock) | time that a test moves |
//! | [`UnreadClock`](threads::UnreadClock) | a path that must not read its clock |
//! | [`TestPark`](threads::TestPark) | real threads, so that blocking tests block |
//! | [`Sleepers`](threads::Sleepers) | counts threads that sleep without a bound |
//! | [`Logs`](threads::Logs) | wake-ups in order |
//! | [`Stalls`](stalls::Stalls) | the times at which the machine stood still |
//!
//! | rig | is for |
//! |---|---|
//! | `ends::Ends` | both ends of a wire, call by call |
//! | `end::End` | a device with memory, driven by hand |
//! | `packets::Shape` | super-packets of every shape |
//! | [`Scratch`] | a directory of a test's own |
//! | [`free_udp`] | an address of a test's own |

pub mod content;
pub mod gate;
pub mod packets;
pub mod stalls;
pub mod threads;
pub mod wrappers;

#[cfg(feature = "devices")]
pub mod end;
#[cfg(feature = "devices")]
pub mod ends;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wharf_core::device::TxDevice;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;

/// Makes a pool of `frames`.
pub fn pool(frames: u32) -> PagePool {
    PagePool::builder().frames(frames).huge_pages(false).build().unwrap()
}

/// Makes a pool whose frames hold `bytes` each.
pub fn pool_of(frames: u32, bytes: u32) -> PagePool {
    PagePool::builder()
        .frames(frames)
        .frame_bytes(bytes + 64)
        .headroom_bytes(64)
        .huge_pages(false)
        .build()
        .unwrap()
}

/// Begins a queue over `device` whose clock stands at 0.
pub fn builder(pool: &PagePool, device: impl TxDevice + 'static) -> QueueBuilder {
    let clock = Arc::new(threads::TestClock::default());
    TxQueue::builder(pool, Box::new(device), clock, Arc::new(threads::TestPark))
}

/// Makes a burst of `count` packets of `len` bytes, numbered from `first` in their first 8 bytes.
pub fn numbered(sender: &mut Sender, first: u64, count: usize, len: u32) -> Burst {
    let mut burst = sender.burst(count);
    while burst.len() < count {
        // Other senders may have all frames.
        let missing = count - burst.len();
        sender.fill(&mut burst, missing, len, Wait::Forever).unwrap();
    }
    for (n, bytes) in burst.iter_mut().enumerate() {
        bytes[..8].copy_from_slice(&(first + n as u64).to_be_bytes());
    }
    burst
}

/// Asserts conservation (rule 1) of a queue with nothing inside: accepted = sent + failed + returned, and no frame
/// is out of the pool.
pub fn assert_conserved(queue: &TxQueue) {
    let counters = queue.counters();
    let (sent, failed, returned) = (counters.sent.get(), counters.failed.get(), counters.returned.get());
    assert_eq!(counters.accepted.get(), sent + failed + returned, "conservation");
    let by_reason: u64 = counters.failures().iter().map(|(_, count)| count).sum();
    assert_eq!(failed, by_reason, "every failure has a reason");
    let by_senders = queue.sender_totals().packets.get();
    assert_eq!(counters.accepted.get(), by_senders, "frames from senders were accepted");
    let audit = queue.audit();
    assert_eq!(audit.out(), 0, "{audit}");
}

/// Returns a free port at `host` for UDP: none that the kernel gives to other sockets meanwhile. In place of
/// 127.0.0.1 it is at a loopback address of this process's own.
pub fn free_udp(host: &str) -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = std::process::id();
    let [_, high, middle, low] = (id | 0x40_0000).to_be_bytes();
    let host = match host.trim_matches(['[', ']']) {
        "127.0.0.1" => IpAddr::from([127, high, middle, low]),
        host => host.parse().unwrap(),
    };
    let ports = || Some(10_000 + (id.wrapping_mul(61).wrapping_add(COUNT.fetch_add(1, Relaxed))) % 20_000);
    let mut addresses = std::iter::from_fn(ports).map(|port| SocketAddr::new(host, port as u16));
    addresses.find(|address| UdpSocket::bind(address).is_ok()).unwrap()
}

/// A directory of a test's own, removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory; `name` shows where a leftover is from.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wharf-{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Returns its own path.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in it.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path for a socket in it.
    pub fn path(&self) -> PathBuf {
        self.file("socket")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next reboot removes what stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
