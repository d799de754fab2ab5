//! Running the qdisc: RUNNING under the root lock, bulks to the device under its own.

use super::entry::Discipline;
use super::locked::{Back, Root, Shared};
use super::spin::spin;
use crate::qdisc::Limit;
use crate::run_log::RunLog;
use crate::tx::engine::{Pause, Source};
use crate::tx::owner::Owner;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;
use wharf_mem::Batch;

/// One thread's hands.
#[derive(Debug)]
pub(super) struct Runner {
    bulk: Batch,
    /// Whose frames are its own, where that is to be known.
    place: Option<u16>,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing is left, or the device takes no more.
    Done,
    /// Its bounds were reached: it is to come back.
    Spent,
}

/// What a run did.
#[derive(Debug, Default)]
struct Ran {
    packets: u64,
    for_others: u64,
}

impl Runner {
    pub(super) fn new(place: Option<u16>) -> Self {
        Self { bulk: Batch::new(crate::tx::engine::BULK_PACKETS_MAX), place }
    }

    /// Takes the root lock and runs the qdisc, if nobody does; frames that the device took.
    pub(super) fn come<D: Discipline>(&mut self, shared: &Shared<D>) -> u64 {
        let mut root = spin(&shared.root);
        shared.discipline.gather(&mut root);
        self.run(shared, root, None)
    }

    /// Runs the qdisc, if nobody does, and again after its bounds, unless somebody else has begun; frames that the
    /// device took.
    pub(super) fn run<'a, D: Discipline>(
        &mut self, shared: &'a Shared<D>, root: MutexGuard<'a, Root>, log: Option<&RunLog>,
    ) -> u64 {
        let (mut root, mut packets) = (root, 0);
        loop {
            if shared.is_running() {
                return packets;
            }
            shared.running.store(true, Relaxed);
            let (ended, ran) = self.run_once(shared, root, log);
            packets += ran;
            if ended == Ended::Done {
                return packets;
            }
            // The kernel's softirq, on this processor, unless another comes first.
            root = spin(&shared.root);
        }
    }

    fn run_once<'a, D: Discipline>(
        &mut self, shared: &'a Shared<D>, mut root: MutexGuard<'a, Root>, log: Option<&RunLog>,
    ) -> (Ended, u64) {
        let mut owner = Owner::unclocked(shared.policy, true);
        let began_ns = log.map_or(0, |_| shared.log_now_ns());
        let mut ran = Ran::default();
        let ended = loop {
            let room_bytes = shared.room_bytes.load(Relaxed);
            if room_bytes > 0 {
                let want = D::BULK_PACKETS.min(owner.quota_left() as usize);
                root.qdisc.begin();
                root.qdisc.dequeue(&mut self.bulk, Limit { packets: want, bytes: room_bytes });
            }
            if self.bulk.is_empty() && (room_bytes > 0 || !shared.back_moves()) {
                shared.running.store(false, Relaxed);
                break Ended::Done;
            }
            drop(root);
            let packets = self.hand_over(shared, &mut ran);
            owner.sent_some(packets);
            root = spin(&shared.root);
            if packets == 0 && shared.room_bytes.load(Relaxed) == 0 {
                shared.running.store(false, Relaxed);
                break Ended::Done;
            }
            if owner.is_spent(|| shared.clock.now_ns()) {
                shared.running.store(false, Relaxed);
                break Ended::Spent;
            }
        };
        drop(root);
        shared.reap();
        if let Some(log) = log {
            let ns = shared.log_now_ns().saturating_sub(began_ns);
            log.note(ran.packets, ran.for_others, owner.longest_packets(), ns);
        }
        (ended, ran.packets)
    }

    /// The bulk to the device, under its lock, after what that had left; frames taken.
    fn hand_over<D: Discipline>(&mut self, shared: &Shared<D>, ran: &mut Ran) -> u32 {
        if let Some(place) = self.place {
            let others = self.bulk.frames().iter().filter(|frame| frame.sender() != place);
            ran.for_others += others.count() as u64;
        }
        let mut back = spin(&shared.back);
        let (packets, pause) = back.run.transmit(&mut BurstSource(&mut self.bulk), u32::MAX);
        shared.note_room(&back, pause == Pause::Stopped);
        ran.packets += u64::from(packets);
        packets
    }
}

impl<D: Discipline> Shared<D> {
    fn log_now_ns(&self) -> u64 {
        self.log_clock.as_ref().map_or(0, |clock| clock.now_ns())
    }

    fn note_room(&self, back: &Back, is_stopped: bool) {
        let room_bytes = if is_stopped || back.run.backlog() > 0 { 0 } else { back.run.room_bytes() };
        self.room_bytes.store(room_bytes, Relaxed);
    }

    /// Takes completions: what the kernel's interrupt would bring.
    fn reap(&self) {
        let mut back = spin(&self.back);
        let Back { run, homes } = &mut *back;
        let (reaped, is_open) = run.reap(homes);
        if reaped > 0 {
            self.note_room(&back, !is_open);
        }
    }

    /// The device is stopped: whether the byte limit says that it is worth another try.
    fn back_moves(&self) -> bool {
        self.reap();
        let back = spin(&self.back);
        back.run.room_bytes() > 0
    }
}

/// A bulk in hand as a source.
struct BurstSource<'a>(&'a mut Batch);

impl Source for BurstSource<'_> {
    #[inline]
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize {
        to.append(self.0, max)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
