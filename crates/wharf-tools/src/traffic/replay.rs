//! Replays of a capture by one or more senders.

use super::check::ReplayCheck;
use super::{Capture, Position, Source};
use std::collections::HashMap;
use std::sync::Arc;
use wharf_core::qdisc::Order;
use wharf_packet::{flow_hash, traffic_class};

/// A capture, split among senders by flow: packets of one flow go by one sender, in their order.
#[derive(Debug, Clone)]
pub struct Split {
    pub(super) capture: Arc<Capture>,
    senders: usize,
    order: Order,
    pub(super) lanes: Arc<[Lane]>,
    /// The lane of a sender, and the key within which packets keep their order.
    by_key: Arc<HashMap<(usize, u64), usize>>,
}

/// Frames of one sender that stay in order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) sender: usize,
    /// Their places in the capture.
    pub(super) places: Vec<u32>,
}

impl Split {
    /// Splits `capture` among `senders`. The queue between keeps `order`, and only that is checked.
    pub fn new(capture: Arc<Capture>, senders: usize, order: Order) -> Self {
        let senders = senders.max(1);
        let (mut lanes, mut by_key) = (Vec::new(), HashMap::new());
        for at in 0..capture.len() {
            let key = key_of(capture.frame_bytes(at), senders, order);
            let lane = *by_key.entry(key).or_insert_with(|| {
                lanes.push(Lane { sender: key.0, places: Vec::new() });
                lanes.len() - 1
            });
            lanes[lane].places.push(at as u32);
        }
        Self { capture, senders, order, lanes: lanes.into(), by_key: Arc::new(by_key) }
    }

    /// Returns the capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Returns the lane that a received frame must have come by, or `Err` with the sender of one that is in no lane.
    pub(super) fn lane_of(&self, frame: &[u8]) -> Result<usize, usize> {
        let key = key_of(frame, self.senders, self.order);
        self.by_key.get(&key).copied().ok_or(key.0)
    }

    /// Returns one source per sender, each of which goes `rounds` times through its part, and sends those of the first
    /// `packets` of all; [`u64::MAX`] for no end.
    pub fn replays(&self, rounds: u64, packets: u64) -> Vec<Replay> {
        (0..self.senders).map(|sender| Replay::new(self, sender, rounds, packets)).collect()
    }

    /// Returns the check of all of it at the other end.
    pub fn check(&self) -> ReplayCheck {
        ReplayCheck::new(self.clone())
    }
}

/// Returns the sender of a frame, and the key within which packets keep their order.
pub(super) fn key_of(frame: &[u8], senders: usize, order: Order) -> (usize, u64) {
    let kept = match order {
        Order::All => 0,
        // Packets of one DSCP are in one band, whatever the map from DSCPs to bands.
        Order::Band => u64::from(traffic_class(frame).unwrap_or(0) >> 2),
        Order::Flow => flow_hash(frame),
    };
    (sender_of(frame, senders), kept)
}

/// Returns the sender, of `senders`, that a frame of a shared capture goes by.
fn sender_of(frame: &[u8], senders: usize) -> usize {
    if senders == 1 { 0 } else { (flow_hash(frame) % senders as u64) as usize }
}

/// One sender's part of a capture, repeated.
#[derive(Debug, Clone)]
pub struct Replay {
    capture: Arc<Capture>,
    places: Box<[u32]>,
    /// Place of the next frame in `places`.
    at: usize,
    sent: u64,
    end: u64,
}

impl Replay {
    fn new(split: &Split, sender: usize, rounds: u64, packets: u64) -> Self {
        let lanes = split.lanes.iter().filter(|lane| lane.sender == sender);
        let mut places: Vec<u32> = lanes.flat_map(|lane| &lane.places).copied().collect();
        places.sort_unstable();
        let (all, own) = (split.capture.len() as u64, places.len() as u64);
        let of_part = places.partition_point(|&place| u64::from(place) < packets % all) as u64;
        let end = match own {
            0 => 0,
            own if packets == u64::MAX => rounds.saturating_mul(own),
            own => rounds.saturating_mul(own).min((packets / all).saturating_mul(own) + of_part),
        };
        Self { capture: split.capture.clone(), places: places.into(), at: 0, sent: 0, end }
    }
}

impl Source for Replay {
    #[inline]
    fn remaining(&self) -> u64 {
        self.end - self.sent
    }

    fn longest_bytes(&self) -> u32 {
        self.capture.longest_bytes()
    }

    #[inline]
    fn len_bytes(&self) -> u32 {
        self.capture.frame_len(self.places[self.at] as usize)
    }

    fn position(&self, ahead: u64) -> Position {
        let (number, count) = (self.sent.saturating_add(ahead), self.places.len() as u64);
        let (round, place) = (number / count, self.places[(number % count) as usize] as usize);
        Position {
            packets: round.saturating_mul(self.capture.len() as u64).saturating_add(place as u64),
            bytes: round
                .saturating_mul(self.capture.bytes())
                .saturating_add(self.capture.bytes_before(place)),
            time_ns: round
                .saturating_mul(self.capture.round_ns())
                .saturating_add(self.capture.frame(place).time_ns),
        }
    }

    fn is_stamped(&self) -> bool {
        false
    }

    #[inline]
    fn write(&mut self, to: &mut [u8], _now_ns: u64) {
        to.copy_from_slice(self.capture.frame_bytes(self.places[self.at] as usize));
        self.sent += 1;
        self.at += 1;
        if self.at == self.places.len() {
            self.at = 0;
        }
    }
}
