//! `Announcing`: the machine's MAC address, of which switches are to learn after a migration.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// States of the machine's own address.
const NEW: u8 = 0;
const DUE: u8 = 1;
const DONE: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(in super::super) struct Announcing {
    /// The machine's address, if it is known.
    mac: Option<[u8; 6]>,
    /// Whether that is to be announced on this connection: see [`Announcing::go_on`].
    own: AtomicU8,
    /// A word that begins with the address to be announced; 0 for none.
    asked: AtomicU64,
}

impl Announcing {
    pub(super) fn new(mac: Option<[u8; 6]>) -> Self {
        Self { mac, own: AtomicU8::new(NEW), asked: AtomicU64::new(0) }
    }

    /// Begins a connection.
    pub(super) fn begin(&self) {
        self.own.store(NEW, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
    }

    /// Adds the address at the beginning of a word (SEND_RARP).
    pub(super) fn add(&self, mac: u64) {
        self.asked.store(mac, Ordering::Relaxed);
    }

    /// Notes that the driver has used the virtqueues before, elsewhere perhaps: the machine's own address is
    /// due, once. QEMU asks for that only where the machine cannot announce itself; one that can may be slow.
    pub(super) fn go_on(&self) {
        // Once is enough.
        _ = self.own.compare_exchange(NEW, DUE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Adds the machine's own address, if it is due: frames can go to the driver.
    pub(super) fn open(&self) {
        let is_due = || self.own.compare_exchange(DUE, DONE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.mac.filter(|_| is_due()).into_iter().for_each(|mac| self.again(mac));
    }

    /// Has an address announced, again if there was no memory for it.
    pub(in super::super) fn again(&self, [a, b, c, d, e, f]: [u8; 6]) {
        self.add(u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]));
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
