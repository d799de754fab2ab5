//! Checks a replayed capture against the capture.

use super::super::Split;
use super::{Arrival, Check, Findings, Verify, first_difference};
use wharf_packet::{Ecn, ecn, mark_ce};

/// Frames ahead in which an unexpected frame is looked for, to go on behind lost ones.
const AHEAD: usize = 4096;

/// Knows which frame of the capture each sender sends next, round after round.
#[derive(Debug)]
pub struct ReplayCheck {
    split: Split,
    /// Place of the frame expected next, by lane.
    next: Vec<usize>,
    findings: Findings,
}

impl ReplayCheck {
    pub(in super::super) fn new(split: Split) -> Self {
        let next = vec![0; split.lanes.len()];
        Self { split, next, findings: Findings::default() }
    }

    /// Finds the fault, and sets the place to go on from.
    #[cold]
    fn differs(&mut self, lane: usize, frame: &[u8]) {
        let Self { split, next, findings } = self;
        let (super::super::replay::Lane { sender, places }, at) = (&split.lanes[lane], next[lane]);
        let place_of = |ahead: usize| (at + ahead) % places.len();
        let expected = |ahead: usize| places[place_of(ahead)] as usize;
        let found = (1..places.len().min(AHEAD))
            .find(|&ahead| is_same(split.capture.frame_bytes(expected(ahead)), frame));
        match found {
            Some(lost) => findings.lose(lost as u64, || {
                format!("sender {sender}: {lost} lost before frame {} of the capture", expected(lost) + 1)
            }),
            None => findings.fail(1, || {
                let byte = first_difference(split.capture.frame_bytes(expected(0)), frame);
                format!(
                    "sender {sender}: frame {} of the capture differs from byte {byte} on",
                    expected(0) + 1
                )
            }),
        }
        next[lane] = place_of(found.unwrap_or(0) + 1);
    }
}

/// True if `frame` is `sent`, or `sent` with a mark of congestion.
#[inline]
pub(super) fn is_same(sent: &[u8], frame: &[u8]) -> bool {
    sent == frame || (sent.len() == frame.len() && ecn(frame) == Some(Ecn::Ce) && is_marked(sent, frame))
}

#[cold]
fn is_marked(sent: &[u8], frame: &[u8]) -> bool {
    let mut marked = sent.to_vec();
    mark_ce(&mut marked) && marked == frame
}

impl Check for ReplayCheck {
    #[inline]
    fn check(&mut self, frame: &[u8], _at: Arrival) {
        self.findings.received(frame);
        let lane = match self.split.lane_of(frame) {
            Ok(lane) => lane,
            Err(sender) => {
                return self
                    .findings
                    .fail(1, || format!("a frame of sender {sender}, which sends none such"));
            }
        };
        let (places, at) = (&self.split.lanes[lane].places, self.next[lane]);
        let expected = places.get(at).map(|&place| self.split.capture.frame_bytes(place as usize));
        if !expected.is_some_and(|expected| is_same(expected, frame)) {
            return self.differs(lane, frame);
        }
        self.next[lane] = if at + 1 == places.len() { 0 } else { at + 1 };
    }
}

impl Verify for ReplayCheck {
    fn findings(&self) -> &Findings {
        &self.findings
    }
}
