//! Completions that are lost, late, reordered, come in two parts, or never.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;
use super::spec::FaultSpec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::Completions;
use wharf_core::host::Clock;
use wharf_mem::{Batch, Frame};

/// Most completions that overtake one.
const OVERTAKE_MAX: u64 = 8;

/// Completions of the device that have not been given to the path yet.
pub(super) struct Later {
    lost: Roll,
    late: Roll,
    late_ns: u64,
    reorder: Roll,
    never: Roll,
    half: Roll,
    /// The completions that come before the rest of a batch that is cut.
    first_part: Option<usize>,
    /// In order, each with the time from which on it is given. Those behind it wait.
    queue: VecDeque<(Frame, u64)>,
    /// Each with the number of completions that are given before it.
    overtaken: Vec<(Frame, u64)>,
    /// Those that never come, until the device is closed or reset.
    kept: Vec<Frame>,
    /// Completions have come without a notification.
    silent: bool,
    clock: Arc<dyn Clock>,
    counts: Arc<FaultCounts>,
}

impl Later {
    pub(super) fn new(spec: &FaultSpec, clock: Arc<dyn Clock>, counts: Arc<FaultCounts>) -> Self {
        let roll = |chance, kind| Roll::new(chance, spec.seed, kind as u64);
        Self {
            lost: roll(spec.lost, Kind::Lost),
            late: roll(spec.late, Kind::Late),
            late_ns: nanoseconds(spec.late_time),
            reorder: roll(spec.reorder, Kind::Reorder),
            never: roll(spec.never, Kind::Never),
            half: roll(spec.half, Kind::Half),
            first_part: None,
            queue: VecDeque::new(),
            overtaken: Vec::new(),
            kept: Vec::new(),
            silent: false,
            clock,
            counts,
        }
    }

    pub(super) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// True if completions pass as they come.
    pub(super) fn is_off(&self) -> bool {
        ![&self.lost, &self.late, &self.reorder, &self.never, &self.half].into_iter().any(Roll::is_on)
    }

    pub(super) fn held(&self) -> usize {
        self.queue.len() + self.overtaken.len() + self.kept.len()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.queue.iter().for_each(|(frame, _)| see(frame));
        self.overtaken.iter().for_each(|(frame, _)| see(frame));
        self.kept.iter().for_each(see);
    }

    /// Takes completions, and decides when each is given.
    pub(super) fn take_in(&mut self, sent: &mut Batch) {
        // A caller without a notification looks again by itself. The completions that it then finds are not lost once more.
        let found_silent = std::mem::take(&mut self.silent);
        if sent.is_empty() {
            return;
        }
        if !found_silent && self.lost.happens() {
            self.silent = true;
            self.counts.add(Kind::Lost, 1);
        }
        if !found_silent {
            self.cut(sent.len());
        }
        while let Some(frame) = sent.pop() {
            if self.never.happens() {
                self.counts.add(Kind::Never, 1);
                self.kept.push(frame);
                continue;
            }
            let due_ns = match self.late.happens() {
                true => self.delayed_ns(),
                false => 0,
            };
            if self.reorder.happens() {
                self.counts.add(Kind::Reorder, 1);
                let others = self.reorder.up_to(OVERTAKE_MAX);
                self.overtaken.push((frame, others));
            } else {
                self.queue.push_back((frame, due_ns));
            }
        }
    }

    /// Cuts a batch of `count` completions in two, by chance.
    fn cut(&mut self, count: usize) {
        if count >= 2 && self.half.happens() {
            self.counts.add(Kind::Half, 1);
            self.first_part = Some(self.half.up_to(count as u64 - 1) as usize);
        }
    }

    fn delayed_ns(&self) -> u64 {
        self.counts.add(Kind::Late, 1);
        self.clock.now_ns().saturating_add(self.late_ns)
    }

    /// Gives up to `budget` frames that are due; of a batch that is cut its first part.
    pub(super) fn give(&mut self, budget: usize, into: &mut Completions) {
        if self.silent {
            return;
        }
        let part = self.first_part.take();
        self.give_due(budget.min(part.unwrap_or(budget)), into);
        // The next call finds the rest.
        self.silent = part.is_some();
    }

    fn give_due(&mut self, budget: usize, into: &mut Completions) {
        let budget = budget.min(into.sent.room());
        let mut given = 0;
        while given < budget && self.is_first_due() {
            let Some((frame, _)) = self.queue.pop_front() else { break };
            into.sent.push_within(frame);
            given += 1;
        }
        // A call that gives nothing counts as one that overtakes, or the last frame of all would never come.
        let passed = given.max(1) as u64;
        for at in (0..self.overtaken.len()).rev() {
            let (_, others) = &mut self.overtaken[at];
            *others = others.saturating_sub(passed);
            if *others == 0 && given < budget {
                into.sent.push_within(self.overtaken.swap_remove(at).0);
                given += 1;
            }
        }
    }

    /// Gives the frames whose completion does not come: the device is closed or reset.
    pub(super) fn kept(&mut self) -> impl Iterator<Item = Frame> {
        self.kept.drain(..)
    }

    /// Gives up to `budget` other held frames, due or not: the device is closed. Returns their number.
    pub(super) fn give_all(&mut self, budget: usize, into: &mut Completions) -> usize {
        self.silent = false;
        let (budget, mut given) = (budget.min(into.sent.room()), 0);
        while given < budget {
            let next = self.queue.pop_front().map(|held| held.0);
            let Some(frame) = next.or_else(|| self.overtaken.pop().map(|held| held.0)) else { break };
            into.sent.push_within(frame);
            given += 1;
        }
        given
    }

    fn is_first_due(&self) -> bool {
        let is_due = |due_ns: u64| due_ns == 0 || due_ns <= self.clock.now_ns();
        self.queue.front().is_some_and(|&(_, due_ns)| is_due(due_ns))
    }

    /// True if a completion could be given now and its notification is not lost.
    pub(super) fn is_ready(&self) -> bool {
        !self.silent && (self.is_first_due() || !self.overtaken.is_empty())
    }

    /// Returns the nanoseconds until the next completion is due, or `None` if none is held or its notification is lost.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if self.silent {
            return Some(u64::MAX);
        }
        let due_ns = self.queue.front().map(|&(_, due_ns)| due_ns);
        let due_ns = if self.overtaken.is_empty() { due_ns? } else { 0 };
        Some(if due_ns == 0 { 0 } else { due_ns.saturating_sub(self.clock.now_ns()) })
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
