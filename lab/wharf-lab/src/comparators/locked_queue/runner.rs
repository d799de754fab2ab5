//! The run of a qdisc: RUNNING under the root lock, bulks to the device under its own.

use super::discipline::Discipline;
use super::shared::{DeviceSide, Root, Shared, spin};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::engine::Pause;
use wharf_core::model::ObservedRun;
use wharf_core::owner::Owner;
use wharf_core::qdisc::Limit;
use wharf_mem::Batch;

/// A thread that may run the qdisc.
#[derive(Debug)]
pub(super) struct Runner {
    bulk: Batch,
    /// The place of its own sender.
    place: Option<u16>,
}

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
enum RunEnd {
    /// Nothing is left, or the device takes no more.
    Done,
    /// Its bounds were reached: it must come back.
    Spent,
}

/// The counts of a run.
#[derive(Debug, Default)]
struct RunCounts {
    packets: u64,
    for_others: u64,
}

impl Runner {
    pub(super) fn new(place: Option<u16>) -> Self {
        Self { bulk: Batch::new(wharf_core::engine::BULK_PACKETS_MAX), place }
    }

    /// Takes the root lock and runs the qdisc if no thread does. Returns the frames that the device took.
    pub(super) fn come<D: Discipline>(&mut self, shared: &Shared<D>) -> u64 {
        let mut root = spin(&shared.root);
        shared.discipline.gather(&mut root);
        self.run(shared, root)
    }

    /// Runs the qdisc if no thread does, and again after its bounds unless another thread has begun. Returns
    /// the frames that the device took.
    pub(super) fn run<'a, D: Discipline>(
        &mut self, shared: &'a Shared<D>, root: MutexGuard<'a, Root>,
    ) -> u64 {
        let (mut root, mut packets) = (root, 0);
        loop {
            if shared.is_running() {
                return packets;
            }
            shared.running.store(true, Relaxed);
            let (ended, ran) = self.run_once(shared, root);
            packets += ran;
            if ended == RunEnd::Done {
                return packets;
            }
            // This is the kernel's softirq on this processor, unless another thread comes first.
            root = spin(&shared.root);
        }
    }

    fn run_once<'a, D: Discipline>(
        &mut self, shared: &'a Shared<D>, mut root: MutexGuard<'a, Root>,
    ) -> (RunEnd, u64) {
        let mut owner = Owner::unclocked(shared.policy, true);
        let observed = shared.observer.as_ref().zip(self.place);
        if let Some((observer, place)) = observed {
            observer.run_began(place);
        }
        let mut ran = RunCounts::default();
        let ended = loop {
            let room_bytes = shared.room_bytes.load(Relaxed);
            if room_bytes > 0 {
                let want = D::BULK_PACKETS.min(owner.quota_left() as usize);
                root.qdisc.begin();
                root.qdisc.dequeue(&mut self.bulk, Limit { packets: want, bytes: room_bytes });
            }
            if self.bulk.is_empty() && (room_bytes > 0 || !shared.back_moves()) {
                shared.running.store(false, Relaxed);
                break RunEnd::Done;
            }
            drop(root);
            let packets = self.hand_over(shared, &mut ran);
            owner.sent_some(packets);
            root = spin(&shared.root);
            if packets == 0 && shared.room_bytes.load(Relaxed) == 0 {
                shared.running.store(false, Relaxed);
                break RunEnd::Done;
            }
            if owner.is_spent(|| shared.clock.now_ns()) {
                shared.running.store(false, Relaxed);
                break RunEnd::Spent;
            }
        };
        drop(root);
        shared.reap();
        if let Some((observer, place)) = observed {
            let (packets, for_others) = (ran.packets, ran.for_others);
            observer.run_ended(
                place,
                &ObservedRun { packets, for_others, longest_packets: owner.longest_packets() },
            );
        }
        (ended, ran.packets)
    }

    /// Hands the bulk to the device, under its lock, after frames left before. Returns the frames taken.
    fn hand_over<D: Discipline>(&mut self, shared: &Shared<D>, ran: &mut RunCounts) -> u32 {
        if let (Some(place), Some(_)) = (self.place, &shared.observer) {
            let others = self.bulk.frames().iter().filter(|frame| frame.sender() != place);
            ran.for_others += others.count() as u64;
        }
        let mut back = spin(&shared.back);
        let (packets, pause) = back.engine.transmit(&mut self.bulk, u32::MAX);
        shared.note_room(&back, pause == Pause::Stopped);
        ran.packets += u64::from(packets);
        packets
    }
}

impl<D: Discipline> Shared<D> {
    fn note_room(&self, back: &DeviceSide, is_stopped: bool) {
        let room_bytes = if is_stopped || back.engine.backlog() > 0 { 0 } else { back.engine.room_bytes() };
        self.room_bytes.store(room_bytes, Relaxed);
    }

    /// Takes completions, in place of the kernel's interrupt.
    fn reap(&self) {
        let mut back = spin(&self.back);
        let DeviceSide { engine, rings } = &mut *back;
        let (reaped, is_open) = engine.reap(rings);
        if reaped > 0 {
            self.note_room(&back, !is_open);
        }
    }

    /// True if the byte limit permits another try of a stopped device.
    fn back_moves(&self) -> bool {
        self.reap();
        let back = spin(&self.back);
        back.engine.room_bytes() > 0
    }
}
