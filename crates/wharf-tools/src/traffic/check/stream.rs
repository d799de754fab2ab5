//! Checks a stream against the frames that were sent: each is kept until it arrives, or is too old to arrive.

use super::super::replay::key_of;
use super::replay::is_same;
use super::{Arrival, Check, Findings, Verify, first_difference};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use wharf_core::qdisc::Order;

/// Frames under way, shared by sender and check. Frames are kept only while there is a check.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct InFlight(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// True while there is a check, so that a sender without one takes no lock.
    is_checked: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

/// Frames that have been sent and not arrived: of the last `frames_max` that were sent, and no others.
#[derive(Debug)]
struct Kept {
    order: Order,
    frames_max: usize,
    /// By the key within which frames keep their order. No entry is empty.
    by_key: HashMap<u64, VecDeque<Sent>>,
    /// Keys of the last frames that were sent, arrived or not.
    keys: VecDeque<u64>,
    /// Number of the next frame that is sent.
    next: u64,
    /// Frames that were dropped here as too old, until the check counts them as lost.
    forgotten: u64,
}

/// A frame that has been sent, and its number.
#[derive(Debug)]
struct Sent {
    number: u64,
    bytes: Vec<u8>,
}

impl InFlight {
    /// Keeps frames from now on, `frames_max` at most. Returns their check.
    pub(in super::super) fn keep(&self, order: Order, frames_max: usize) -> StreamCheck {
        let (by_key, keys) = (HashMap::new(), VecDeque::new());
        let kept = Kept { order, frames_max: frames_max.max(1), by_key, keys, next: 0, forgotten: 0 };
        *self.0.lock() = Some(kept);
        self.0.is_checked.store(true, Relaxed);
        StreamCheck { sent: self.clone(), findings: Findings::default() }
    }

    /// Notes a frame that is sent.
    #[inline]
    pub(in super::super) fn add(&self, frame: &[u8]) {
        if self.0.is_checked.load(Relaxed)
            && let Some(kept) = &mut *self.0.lock()
        {
            kept.add(frame);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        wharf_mem::lock(&self.kept)
    }
}

impl Kept {
    fn add(&mut self, frame: &[u8]) {
        if self.keys.len() == self.frames_max {
            self.forget();
        }
        let (_, key) = key_of(frame, 1, self.order);
        self.keys.push_back(key);
        let sent = Sent { number: self.next, bytes: frame.to_vec() };
        self.by_key.entry(key).or_default().push_back(sent);
        self.next += 1;
    }

    /// Drops the oldest frame, unless it has arrived.
    fn forget(&mut self) {
        let oldest = self.next - self.keys.len() as u64;
        let Some(key) = self.keys.pop_front() else { return };
        let is_oldest = |sent: &VecDeque<Sent>| sent.front().is_some_and(|sent| sent.number == oldest);
        if self.by_key.get(&key).is_some_and(is_oldest) {
            self.take_until(key, 0);
            self.forgotten += 1;
        }
    }

    /// Removes the frames of `key` up to and including place `last`. Returns the last of them.
    fn take_until(&mut self, key: u64, last: usize) -> Option<Sent> {
        let sent = self.by_key.get_mut(&key)?;
        let taken = sent.drain(..=last.min(sent.len().saturating_sub(1))).next_back();
        if sent.is_empty() {
            self.by_key.remove(&key);
        }
        taken
    }
}

/// Knows the frames that a stream has sent, and expects each of them, in order. A frame counts as lost once a
/// later one of its order has arrived, or as many have been sent after it as are kept.
#[derive(Debug)]
pub struct StreamCheck {
    sent: InFlight,
    findings: Findings,
}

impl Drop for StreamCheck {
    fn drop(&mut self) {
        self.sent.0.is_checked.store(false, Relaxed);
        *self.sent.0.lock() = None;
    }
}

impl Check for StreamCheck {
    fn check(&mut self, frame: &[u8], _at: Arrival) {
        let Self { sent, findings } = self;
        findings.received(frame);
        let mut kept = sent.0.lock();
        let Some(kept) = &mut *kept else { return };
        let forgotten = std::mem::take(&mut kept.forgotten);
        if forgotten > 0 {
            let later = kept.frames_max;
            findings.lose(forgotten, || format!("{forgotten} frames lost: {later} later ones were sent"));
        }
        let (_, key) = key_of(frame, 1, kept.order);
        let found = kept.by_key.get(&key);
        match found.and_then(|found| found.iter().position(|sent| is_same(&sent.bytes, frame))) {
            Some(lost) => {
                kept.take_until(key, lost);
                if lost > 0 {
                    findings.lose(lost as u64, || format!("{lost} frames lost before one of the stream"));
                }
            }
            None => {
                let expected = kept.take_until(key, 0);
                let byte = expected.map_or(0, |sent| first_difference(&sent.bytes, frame));
                findings.fail(1, || format!("a frame of the stream differs from byte {byte} on"));
            }
        }
    }
}

impl Verify for StreamCheck {
    fn findings(&self) -> &Findings {
        &self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_lost_changed_or_out_of_order_is_found() {
        let at = Arrival::default();
        let sent = InFlight::default();
        sent.add(&[9; 60]); // before the check: not kept
        let mut check = sent.keep(Order::All, 100);
        (0..6).for_each(|byte| sent.add(&[byte; 60]));
        check.check(&[0; 60], at);
        assert_eq!(check.findings().errors, 0);
        check.check(&[2; 60], at);
        assert_eq!((check.findings().missing, check.findings().errors), (1, 1), "1 is lost");
        check.check(&[3; 59], at);
        assert_eq!((check.findings().missing, check.findings().errors), (1, 2), "3 is cut");
        check.check(&[5; 60], at);
        check.check(&[4; 60], at);
        let findings = check.findings();
        assert_eq!((findings.packets, findings.missing, findings.errors), (5, 2, 4), "4 is behind 5");
        assert_eq!(findings.first_error.as_deref(), Some("1 frames lost before one of the stream"));
    }

    /// Returns the frames kept, and the entries that say where.
    fn kept(sent: &InFlight) -> (usize, usize, usize) {
        let kept = sent.0.lock();
        kept.as_ref().map_or((0, 0, 0), |kept| {
            (kept.by_key.values().map(VecDeque::len).sum(), kept.by_key.len(), kept.keys.len())
        })
    }

    /// A frame of one flow or, by its number, of many.
    fn frame(number: u32) -> Vec<u8> {
        let mut frame = vec![0; 42];
        (frame[12], frame[14]) = (8, 0x45);
        frame[26..30].copy_from_slice(&number.to_be_bytes());
        frame
    }

    #[test]
    fn without_a_check_nothing_is_kept_and_with_one_no_more_than_was_allowed() {
        let (sent, at) = (InFlight::default(), Arrival::default());
        (0..1000).for_each(|number| sent.add(&frame(number)));
        assert_eq!(kept(&sent), (0, 0, 0), "no check yet");
        for order in [Order::All, Order::Flow] {
            // A check at a far end where nothing arrives.
            let mut check = sent.keep(order, 16);
            (0..1000).for_each(|number| sent.add(&frame(number)));
            let flows = if order == Order::All { 1 } else { 16 };
            assert_eq!(kept(&sent), (16, flows, 16), "{order:?}");
            check.check(&frame(999), at);
            let lost_before = if order == Order::All { 15 } else { 0 };
            assert_eq!(
                (check.findings().missing, check.findings().errors),
                (984 + lost_before, 984 + lost_before)
            );
            // One where all arrives: nothing stays of flows that are over.
            (1000..2000).for_each(|number| {
                sent.add(&frame(number));
                check.check(&frame(number), at);
            });
            let (frames, flows, keys) = kept(&sent);
            assert!(
                frames == flows && frames == 0 && keys == 16,
                "{order:?}: {frames} of {flows} flows, {keys}"
            );
            drop(check);
            (0..1000).for_each(|number| sent.add(&frame(number)));
            assert_eq!(kept(&sent), (0, 0, 0), "its check has gone");
        }
    }
}
