//! Checks a stream against the frames that were sent: each is kept until it arrives, or is too old to
//! arrive. Of more than [`BYTES_MAX`] under way, the oldest are kept without their bytes.

use super::super::replay::key_of;
use super::replay::is_same;
use super::{Arrival, Check, Findings, Verify, first_difference};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use wharf_core::qdisc::Order;

/// Most bytes of frames that are kept.
const BYTES_MAX: usize = 8 << 20;
/// Most frames that are kept, whatever a check asks for.
const FRAMES_MAX: usize = 1 << 18;

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
    /// Bytes of the frames that are kept, and the number of the first that still has them.
    bytes: usize,
    whole_from: u64,
}

/// A frame that has been sent: its number, its length, and its bytes while there is room for them.
#[derive(Debug)]
struct Sent {
    number: u64,
    len_bytes: usize,
    bytes: Option<Box<[u8]>>,
}

impl Sent {
    /// True if `frame` may be this one.
    fn fits(&self, frame: &[u8]) -> bool {
        self.bytes.as_ref().map_or(self.len_bytes == frame.len(), |bytes| is_same(bytes, frame))
    }
}

impl InFlight {
    /// Keeps frames from now on, `frames_max` at most. Returns their check.
    pub(in super::super) fn keep(&self, order: Order, frames_max: usize) -> StreamCheck {
        let (by_key, keys, frames_max) = (HashMap::new(), VecDeque::new(), frames_max.clamp(1, FRAMES_MAX));
        let (next, forgotten, bytes, whole_from) = (0, 0, 0, 0);
        let kept = Kept { order, frames_max, by_key, keys, next, forgotten, bytes, whole_from };
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
        let sent = Sent { number: self.next, len_bytes: frame.len(), bytes: Some(frame.into()) };
        self.by_key.entry(key).or_default().push_back(sent);
        (self.next, self.bytes) = (self.next + 1, self.bytes + frame.len());
        while self.bytes > BYTES_MAX {
            self.strip();
        }
    }

    /// Drops the bytes of the oldest frame that has any.
    #[cold]
    fn strip(&mut self) {
        let oldest = self.next - self.keys.len() as u64;
        let number = self.whole_from.max(oldest);
        self.whole_from = number + 1;
        let key = self.keys.get((number - oldest) as usize);
        let Some(sent) = key.and_then(|key| self.by_key.get_mut(key)) else { return };
        let at = sent.partition_point(|sent| sent.number < number);
        let sent = sent.get_mut(at).filter(|sent| sent.number == number);
        self.bytes -= sent.and_then(|sent| sent.bytes.take()).map_or(0, |bytes| bytes.len());
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
        let mut taken = None;
        for one in sent.drain(..=last.min(sent.len().saturating_sub(1))) {
            self.bytes -= one.bytes.as_ref().map_or(0, |bytes| bytes.len());
            taken = Some(one);
        }
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
        match found.and_then(|found| found.iter().position(|sent| sent.fits(frame))) {
            Some(lost) => {
                let taken = kept.take_until(key, lost);
                findings.unchecked += u64::from(taken.is_some_and(|sent| sent.bytes.is_none()));
                if lost > 0 {
                    findings.lose(lost as u64, || format!("{lost} frames lost before one of the stream"));
                }
            }
            None => {
                let expected = kept.take_until(key, 0);
                let bytes = expected.and_then(|sent| sent.bytes);
                let byte = bytes.map_or(0, |bytes| first_difference(&bytes, frame));
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
    fn a_check_that_falls_behind_keeps_so_many_bytes_and_says_what_it_did_not_compare() {
        let (sent, at) = (InFlight::default(), Arrival::default());
        let frames = 2 * BYTES_MAX / 1024;
        for order in [Order::All, Order::Flow] {
            let mut check = sent.keep(order, 2 * frames);
            let frame = |number: usize| [&frame(number as u32 % 7)[..], &[number as u8; 1024 - 42]].concat();
            (0..frames).for_each(|number| sent.add(&frame(number)));
            let bytes = || sent.0.lock().as_ref().map(|kept| kept.bytes);
            assert_eq!(bytes(), Some(BYTES_MAX), "{order:?}");
            (0..frames).for_each(|number| check.check(&frame(number), at));
            let findings = check.findings();
            assert_eq!((findings.errors, findings.unchecked), (0, frames as u64 / 2), "{order:?}");
            assert_eq!((bytes(), kept(&sent).0), (Some(0), 0));
            // What comes later is compared again.
            sent.add(&[1; 60]);
            check.check(&[2; 60], at);
            assert_eq!((check.findings().errors, check.findings().unchecked), (1, frames as u64 / 2));
        }
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
