//! A spin lock: its holder, its spinners, and the cost of a hand-over.
//!
//! The cost of a hand-over grows with the number of spinners. Each spinner has a copy of the lock's line; a
//! hand-over invalidates all copies, and all spinners fetch the line again (Boyd-Wickizer et al.,
//! "Non-scalable locks are dangerous", 2012).

use super::Random;
use serde::Deserialize;
use std::collections::VecDeque;

/// The order in which spinners get a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockKind {
    /// In order of arrival.
    #[default]
    Ticket,
    /// In any order: the kernel's lock before 2.6.25, and a compare-and-swap loop.
    Unfair,
}

/// Costs of a lock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct LockCosts {
    /// Taking and releasing a lock in this processor's cache.
    pub pair_ns: u64,
    /// The extra cost if another processor held it last.
    pub transfer_ns: u64,
    /// The extra cost of a hand-over, for each other spinner.
    pub per_spinner_ns: u64,
}

/// A spin lock of modelled processors.
#[derive(Debug)]
pub struct SpinLock {
    kind: LockKind,
    costs: LockCosts,
    held: bool,
    /// The processor whose cache holds the line.
    last: Option<usize>,
    /// Processors that spin, and the start of their spinning.
    spinning: VecDeque<(usize, u64)>,
}

impl SpinLock {
    /// Creates a free lock.
    pub fn new(kind: LockKind, costs: LockCosts) -> Self {
        Self { kind, costs, held: false, last: None, spinning: VecDeque::new() }
    }

    /// Takes the lock for processor `cpu`. Returns the time that it takes, in nanoseconds, or `None` if it
    /// must spin. It then has no event until a [`SpinLock::release`] names it.
    #[inline]
    pub fn acquire(&mut self, cpu: usize, now_ns: u64) -> Option<u64> {
        if self.held {
            self.spinning.push_back((cpu, now_ns));
            return None;
        }
        let transfer_ns = if self.last == Some(cpu) { 0 } else { self.costs.transfer_ns };
        let taking_ns = self.costs.pair_ns + transfer_ns;
        (self.held, self.last) = (true, Some(cpu));
        Some(taking_ns)
    }

    /// Releases the lock. Returns the next holder, the start of its spinning, and the time at which it holds
    /// the lock.
    #[inline]
    pub fn release(&mut self, now_ns: u64, random: &mut Random) -> Option<HandedOver> {
        self.held = false;
        if self.spinning.is_empty() {
            return None;
        }
        let next = match self.kind {
            LockKind::Ticket => 0,
            LockKind::Unfair => random.below(self.spinning.len() as u64) as usize,
        };
        let (cpu, since_ns) = self.spinning.remove(next)?;
        let others = self.spinning.len() as u64;
        let over_ns = self.costs.pair_ns + self.costs.transfer_ns + others * self.costs.per_spinner_ns;
        let at_ns = now_ns + over_ns;
        (self.held, self.last) = (true, Some(cpu));
        Some(HandedOver { cpu, since_ns, at_ns })
    }

    /// Returns the processors that spin for it now, and the start of their spinning.
    pub fn spinning(&self) -> impl Iterator<Item = (usize, u64)> {
        self.spinning.iter().copied()
    }
}

/// A hand-over of a lock to a spinner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOver {
    /// The new holder.
    pub cpu: usize,
    /// The start of its spinning.
    pub since_ns: u64,
    /// The time at which it continues, with the lock.
    pub at_ns: u64,
}
