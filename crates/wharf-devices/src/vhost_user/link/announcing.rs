//! `Announcing`: the machine's MAC address, of which switches are to learn after a migration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(in super::super) struct Announcing {
    /// The machine's address, if it is known.
    mac: Option<[u8; 6]>,
    /// That was announced on this connection.
    has_own: AtomicBool,
    /// A word that begins with the address to be announced; 0 for none.
    asked: AtomicU64,
}

impl Announcing {
    pub(super) fn new(mac: Option<[u8; 6]>) -> Self {
        Self { mac, has_own: AtomicBool::new(false), asked: AtomicU64::new(0) }
    }

    /// Begins a connection.
    pub(super) fn begin(&self) {
        self.has_own.store(false, Ordering::Relaxed);
    }

    /// Adds the address at the beginning of a word (SEND_RARP).
    pub(super) fn add(&self, mac: u64) {
        self.asked.store(mac, Ordering::Relaxed);
    }

    /// Adds the machine's own address, once: its driver has used the virtqueues before, elsewhere perhaps.
    /// QEMU asks for that only where the machine cannot announce itself; one that can may be slow.
    pub(super) fn own(&self) {
        let Some([a, b, c, d, e, f]) = self.mac else { return };
        if !self.has_own.swap(true, Ordering::Relaxed) {
            self.add(u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]));
        }
    }

    /// Returns the address that is to be announced, once.
    #[inline]
    pub(in super::super) fn take(&self) -> Option<[u8; 6]> {
        if self.asked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.asked.swap(0, Ordering::Relaxed).to_ne_bytes().first_chunk().copied()
    }
}
