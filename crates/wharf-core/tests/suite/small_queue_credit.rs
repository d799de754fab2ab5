//! A sender's account of bytes inside, in a simulation of senders, a FIFO and a wire.

use std::collections::VecDeque;
use std::time::Duration;
use wharf_core::bql::Bql;
use wharf_core::small_queue::{
    Credit, FIRST_BYTES, FLOOR_BYTES, QueueProgress, SMALL_QUEUE_BYTES, TsqWindow,
};

const MS: u64 = 1_000_000;
/// Steps of the simulation per millisecond.
const STEPS: u64 = 16;
const PACKET_BYTES: u32 = 400;

/// Eager senders, a FIFO, and a wire with a byte limit and late completions.
struct Rig {
    senders: Vec<Simulated>,
    tsq_window: TsqWindow,
    fifo: VecDeque<usize>,
    bql: Bql,
    /// Frames on the wire.
    ring: VecDeque<usize>,
    bytes_per_ms: u32,
    wire_bytes: u32,
    /// Bytes that have left the wire, by sender, to be completed at the next interrupt.
    late_bytes: Vec<u32>,
    told_every: u64,
    /// Delay of a woken sender, in steps.
    woken_late_steps: u64,
    taken_bytes: u64,
    step: u64,
}

struct Simulated {
    credit: Credit,
    returned_bytes: u32,
    resume: u32,
    /// The step at which it may send again.
    woken_at: Option<u64>,
    starts_ms: u64,
    limits_bytes: Vec<u32>,
}

impl Rig {
    fn new(senders: usize, bytes_per_ms: u32, told_every: u64) -> Self {
        let sender = |at| Simulated {
            credit: Credit::new(Some(SMALL_QUEUE_BYTES), 0, 0),
            returned_bytes: 0,
            resume: 0,
            woken_at: None,
            starts_ms: 7 * at as u64,
            limits_bytes: Vec::new(),
        };
        Self {
            senders: (0..senders).map(sender).collect(),
            tsq_window: TsqWindow::new(),
            fifo: VecDeque::new(),
            bql: Bql::new(Duration::from_secs(1)),
            ring: VecDeque::new(),
            bytes_per_ms,
            wire_bytes: 0,
            late_bytes: vec![0; senders],
            told_every,
            woken_late_steps: 0,
            taken_bytes: 0,
            step: 0,
        }
    }

    /// Runs the simulation. Returns the bytes of each sender that left.
    fn run(&mut self, ms: u64) -> Vec<f64> {
        let before: Vec<u32> = self.senders.iter().map(|sender| sender.returned_bytes).collect();
        self.senders.iter_mut().for_each(|sender| sender.limits_bytes.clear());
        (0..ms * STEPS).for_each(|_| self.step());
        let left =
            |(sender, before): (&Simulated, u32)| f64::from(sender.returned_bytes.wrapping_sub(before));
        self.senders.iter().zip(before).map(left).collect()
    }

    fn step(&mut self) {
        self.wire_bytes += self.bytes_per_ms / STEPS as u32;
        while self.wire_bytes >= PACKET_BYTES && !self.ring.is_empty() {
            self.wire_bytes -= PACKET_BYTES;
            self.late_bytes[self.ring.pop_front().unwrap()] += PACKET_BYTES;
        }
        if self.ring.is_empty() {
            self.wire_bytes = 0;
        }
        let mut told = vec![0; self.senders.len()];
        if self.step.is_multiple_of(self.told_every) {
            told = std::mem::replace(&mut self.late_bytes, told);
        }
        let now = Duration::from_nanos(self.step * MS / STEPS);
        self.bql.completed(told.iter().sum(), now).unwrap();
        // The sender told first goes first: not always the same one.
        for at in 0..self.senders.len() {
            let at = (at + (self.step / self.told_every) as usize) % self.senders.len();
            self.senders[at].returned_bytes = self.senders[at].returned_bytes.wrapping_add(told[at]);
            self.send(at);
            self.hand();
        }
        self.step += 1;
    }

    fn hand(&mut self) {
        while self.bql.available() >= 0
            && let Some(sender) = self.fifo.pop_front()
        {
            self.bql.queued(PACKET_BYTES);
            self.taken_bytes += u64::from(PACKET_BYTES);
            self.ring.push_back(sender);
        }
    }

    fn send(&mut self, at: usize) {
        let (sender, now_ns) = (&mut self.senders[at], self.step * MS / STEPS);
        sender.limits_bytes.push(sender.credit.limit_bytes());
        if now_ns < sender.starts_ms * MS || (sender.returned_bytes.wrapping_sub(sender.resume) as i32) < 0 {
            return;
        }
        if *sender.woken_at.get_or_insert(self.step + self.woken_late_steps) > self.step {
            return;
        }
        sender.woken_at = None;
        let queue = QueueProgress {
            taken_bytes: self.taken_bytes,
            taken_packets: 0,
            limit_bytes: self.bql.limit().into(),
            limit_packets: 0,
            is_dry: self.fifo.is_empty() && self.bql.in_flight() == 0,
            tsq_window: &self.tsq_window,
        };
        sender.credit.look(sender.returned_bytes, queue, now_ns);
        while sender.credit.admits(PACKET_BYTES.into()) {
            sender.credit.charge(PACKET_BYTES.into());
            self.fifo.push_back(at);
        }
        sender.resume = sender.credit.hold();
    }

    /// Returns the bytes that all senders may have inside, by the median of each.
    fn inside_bytes(&self) -> f64 {
        let median = |sender: &Simulated| {
            let mut limits = sender.limits_bytes.clone();
            limits.sort_unstable();
            f64::from(limits[limits.len() / 2])
        };
        self.senders.iter().map(median).sum()
    }
}

/// A queue whose device has no byte limit.
fn taken(bytes: u32) -> QueueProgress<'static> {
    static ONE: TsqWindow = TsqWindow::new();
    QueueProgress {
        taken_bytes: bytes.into(),
        taken_packets: 0,
        limit_bytes: 0,
        limit_packets: 0,
        is_dry: true,
        tsq_window: &ONE,
    }
}

#[test]
fn limit_becomes_a_millisecond_of_the_rate_and_the_device_part() {
    // 100 Mbit/s and 1 Gbit/s; completions at once, and at intervals of milliseconds.
    for bytes_per_ms in [12_800, 128_000] {
        for (senders, late_ms) in [(1, 0), (1, 1), (2, 2), (4, 0), (8, 1), (64, 0)] {
            let mut rig = Rig::new(senders, bytes_per_ms, (late_ms * STEPS).max(1));
            rig.run(1000);
            let left: f64 = rig.run(500).iter().sum();
            let what = format!("{senders} senders, {bytes_per_ms} B/ms, completions every {late_ms} ms");
            let one_ms = f64::from(bytes_per_ms);
            assert!(left > one_ms * 499.0, "{what}: {left} bytes");
            let floors = f64::from(FLOOR_BYTES) * senders as f64;
            let wanted = one_ms + f64::from(rig.bql.limit());
            if wanted > f64::from(SMALL_QUEUE_BYTES) {
                continue;
            }
            let most = (senders as f64).sqrt().sqrt() * wanted;
            let inside = rig.inside_bytes();
            assert!(inside <= floors.max(1.5 * most), "{what}: {inside} bytes inside, wanted {most}");
            assert!(inside > 0.9 * wanted, "{what}: {inside} bytes inside");
        }
    }
    let mut rig = Rig::new(1, 128_000_000, 1);
    rig.run(500);
    assert_eq!(rig.senders[0].credit.limit_bytes(), SMALL_QUEUE_BYTES);
}

#[test]
fn equal_senders_come_to_equal_shares() {
    for late_ms in [0, 1, 2, 5] {
        for senders in [2, 4, 8] {
            let mut rig = Rig::new(senders, 128_000, (late_ms * STEPS).max(1));
            rig.run(1000);
            let left = rig.run(1000);
            let squares: f64 = left.iter().map(|bytes| bytes * bytes).sum();
            let jain = left.iter().sum::<f64>().powi(2) / squares / senders as f64;
            assert!(jain > 0.9, "completions every {late_ms} ms: {jain}, {left:?}");
        }
    }
}

#[test]
fn late_wake_ups_widen_the_window_and_timely_ones_narrow_it() {
    let mut rig = Rig::new(1, 128_000, 1);
    rig.woken_late_steps = 2 * STEPS;
    rig.run(500);
    let late = rig.run(500)[0];
    assert!(late > 0.9 * 500.0 * 128_000.0, "{late}");
    assert!(rig.senders[0].credit.limit_bytes() > 2 * 128_000);
    rig.woken_late_steps = 0;
    rig.run(500);
    assert!(rig.senders[0].credit.limit_bytes() < 150_000);
}

#[test]
fn pausing_sender_keeps_its_limit_and_unheld_sender_raises_it() {
    let mut credit = Credit::new(Some(SMALL_QUEUE_BYTES), 0, 0);
    credit.charge(FIRST_BYTES.into());
    credit.look(FIRST_BYTES, taken(FIRST_BYTES), 10_000 * MS);
    assert_eq!(credit.limit_bytes(), FIRST_BYTES);
    credit.charge(FIRST_BYTES.into());
    credit.look(2 * FIRST_BYTES, taken(2 * FIRST_BYTES), 10_001 * MS - 1);
    credit.charge(FIRST_BYTES.into());
    credit.look(3 * FIRST_BYTES, taken(3 * FIRST_BYTES), 10_001 * MS);
    assert_eq!(credit.limit_bytes(), 2 * FIRST_BYTES);
}

#[test]
fn late_bytes_of_an_earlier_sender_charge_no_other() {
    let mut credit = Credit::new(Some(4096), 7, 0);
    credit.look(5007, taken(5000), 1);
    assert!(credit.admits(4096) && !credit.admits(4097));
}
