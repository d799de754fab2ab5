//! CoDel as RFC 8289 words it.

use super::{Arrival, Event, Queue};
use std::collections::VecDeque;

/// The pseudocode of RFC 8289, section 5, transcribed; with `ecn`, a mark takes the place of a drop and ends the call.
#[derive(Default)]
pub struct Rfc8289 {
    queue: VecDeque<(u64, u64, Arrival)>,
    bytes: u64,
    ecn: bool,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

const TARGET: u64 = 5_000_000;
const INTERVAL: u64 = 100_000_000;
const MAXPACKET: u64 = 1514;

impl Rfc8289 {
    pub fn new(ecn: bool) -> Self {
        Self { ecn, ..Self::default() }
    }

    fn dodequeue(&mut self, now: u64) -> (Option<(u64, u64, Arrival)>, bool) {
        let Some(p) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        self.bytes -= p.2.bytes;
        let mut ok_to_drop = false;
        let sojourn_time = now - p.0;
        if sojourn_time < TARGET || self.bytes <= MAXPACKET {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + INTERVAL;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(p), ok_to_drop)
    }

    fn control_law(t: u64, count: u32) -> u64 {
        t + (INTERVAL as f64 / (count as f64).sqrt()) as u64
    }

    fn is_marked(&self, p: &Option<(u64, u64, Arrival)>) -> bool {
        self.ecn && p.is_some_and(|p| p.2.ecn != 0)
    }
}

impl Queue for Rfc8289 {
    fn enqueue(&mut self, now: u64, number: u64, arrival: Arrival) {
        self.bytes += arrival.bytes;
        self.queue.push_back((now, number, arrival));
    }

    fn dequeue(&mut self, now: u64, events: &mut Vec<Event>) -> Option<u64> {
        let mut drop = |p: Option<(u64, u64, Arrival)>| events.push(Event::Dropped(now, p.unwrap().1));
        let mut marked = false;
        let (mut p, mut ok_to_drop) = self.dodequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if self.is_marked(&p) {
                    marked = true;
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                    break;
                }
                drop(p);
                (p, ok_to_drop) = self.dodequeue(now);
                if !ok_to_drop {
                    self.dropping = false;
                } else {
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                }
            }
        } else if ok_to_drop {
            if self.is_marked(&p) {
                marked = true;
            } else {
                drop(p);
                (p, _) = self.dodequeue(now);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16 * INTERVAL {
                self.count = delta;
            }
            self.drop_next = Self::control_law(now, self.count);
            self.lastcount = self.count;
        }
        let (_, number, arrival) = p?;
        events.push(if marked { Event::LeftMarked(now, number) } else { Event::Left(now, number) });
        Some(arrival.bytes)
    }
}
