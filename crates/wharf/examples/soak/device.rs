//! A wrapper around the device: it checks that each sender's packets come in order, and panics on request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use wharf::device::delegate;
use wharf::device::{Batch, Region};
use wharf::device::{Completions, Device, DeviceError, Notify, Transmitted, TxDevice};

/// The wrapper's findings and its orders.
#[derive(Debug, Default)]
pub struct Watched {
    /// Frames taken.
    pub taken: AtomicU64,
    /// The first packet out of order.
    pub fault: Mutex<Option<String>>,
    /// True if the next call panics.
    pub bomb: AtomicBool,
}

/// See the module.
pub struct Watcher {
    inner: Box<dyn TxDevice>,
    region: Option<Arc<Region>>,
    watched: Arc<Watched>,
    /// Per sender, the least number of the next packet.
    next: HashMap<u64, u64>,
    /// Numbers in the current batch.
    stamps: Vec<(u64, u64)>,
}

impl Watcher {
    pub fn new(inner: Box<dyn TxDevice>, watched: Arc<Watched>) -> Self {
        Self { inner, region: None, watched, next: HashMap::new(), stamps: Vec::new() }
    }

    fn explode_if_told(&self) {
        if self.watched.bomb.load(SeqCst) {
            super::senders::panic_quietly("the device");
        }
    }

    fn check(&mut self, taken: usize) {
        for &(sender, number) in &self.stamps[..taken] {
            let next = self.next.entry(sender).or_default();
            if number < *next {
                let what = format!("packet {number} of sender {sender} came after {}", *next - 1);
                self.watched.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
            }
            *next = number + 1;
        }
        self.watched.taken.fetch_add(taken as u64, SeqCst);
    }
}

/// Returns the sender and the number of a packet.
pub fn stamp(bytes: &mut [u8], sender: u64, number: u64) {
    bytes[..8].copy_from_slice(&sender.to_be_bytes());
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
}

fn stamp_of(bytes: &[u8]) -> (u64, u64) {
    let number = |at: usize| bytes[at..at + 8].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    (number(0), number(8))
}

impl Notify for Watcher {}

impl Device for Watcher {
    delegate!(inner: name, visit, close);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }
}

impl TxDevice for Watcher {
    delegate!(inner: info, flush, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.explode_if_told();
        self.stamps.clear();
        if let Some(region) = &self.region {
            let bytes = batch.frames().iter().map(|frame| region.bytes(frame).unwrap_or(&[0; 16]));
            self.stamps.extend(bytes.map(stamp_of));
        }
        let done = self.inner.transmit(batch, more);
        self.check(self.stamps.len() - batch.len());
        done
    }

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.explode_if_told();
        self.inner.reap(budget, urgent, into)
    }
}
