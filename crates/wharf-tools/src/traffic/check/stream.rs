//! Checks a stream against the frames that were sent: each is kept until it arrives.

use super::super::replay::key_of;
use super::replay::is_same;
use super::{Arrival, Check, Findings, Verify, first_difference};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wharf_core::qdisc::Order;

/// Frames that have been sent and not arrived, by the key within which they keep their order.
type Kept = HashMap<u64, VecDeque<Vec<u8>>>;

/// Frames under way, shared by sender and check. Without a check none is kept.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct InFlight(Arc<OnceLock<(Order, Mutex<Kept>)>>);

impl InFlight {
    /// Keeps frames from now on. Returns their check.
    pub(in super::super) fn keep(&self, order: Order) -> StreamCheck {
        self.0.get_or_init(|| (order, Mutex::default()));
        StreamCheck { sent: self.clone(), findings: Findings::default() }
    }

    /// Notes a frame that is sent.
    #[inline]
    pub(in super::super) fn add(&self, frame: &[u8]) {
        if let Some((order, kept)) = self.0.get() {
            let (_, key) = key_of(frame, 1, *order);
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_default()
                .push_back(frame.to_vec());
        }
    }
}

/// Knows the frames that a stream has sent, and expects each of them, in order.
#[derive(Debug)]
pub struct StreamCheck {
    sent: InFlight,
    findings: Findings,
}

impl Check for StreamCheck {
    fn check(&mut self, frame: &[u8], _at: Arrival) {
        self.findings.received(frame);
        let Some((order, kept)) = self.sent.0.get() else { return };
        let (_, key) = key_of(frame, 1, *order);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = kept.entry(key).or_default();
        match expected.iter().position(|sent| is_same(sent, frame)) {
            Some(0) => drop(expected.pop_front()),
            Some(lost) => {
                expected.drain(..=lost);
                self.findings.lose(lost as u64, || format!("{lost} frames lost before one of the stream"));
            }
            None => {
                let byte = expected.pop_front().map_or(0, |sent| first_difference(&sent, frame));
                self.findings.fail(1, || format!("a frame of the stream differs from byte {byte} on"));
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
        let mut check = sent.keep(Order::All);
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
}
