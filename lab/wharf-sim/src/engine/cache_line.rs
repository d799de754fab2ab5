//! A shared cache line: one processor holds it, and the others wait for it in turn.

use serde::Deserialize;

/// Costs of an access to a line, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct LineCosts {
    /// An access to a line in this processor's cache.
    pub hit_ns: u64,
    /// A transfer from another processor's cache.
    pub transfer_ns: u64,
}

/// A line that several processors write: an owner word, a ring's index, the head of a list.
#[derive(Debug, Clone)]
pub struct CacheLine {
    costs: LineCosts,
    owner: Option<usize>,
    free_ns: u64,
}

impl CacheLine {
    /// Creates a line that no cache holds.
    pub fn new(costs: LineCosts) -> Self {
        Self { costs, owner: None, free_ns: 0 }
    }

    /// Lets processor `cpu` write the line from `now_ns` on. Returns the time at which it is done. Transfers
    /// are serialised, so calls must be made in order of time.
    #[inline]
    pub fn write(&mut self, cpu: usize, now_ns: u64) -> u64 {
        self.write_by(cpu, now_ns, |cost_ns| cost_ns)
    }

    /// Works like [`CacheLine::write`], where the access takes what `vary` makes of its cost.
    #[inline]
    pub fn write_by(&mut self, cpu: usize, now_ns: u64, vary: impl FnOnce(u64) -> u64) -> u64 {
        let begin_ns = now_ns.max(self.free_ns);
        let cost_ns = vary(if self.owner == Some(cpu) { self.costs.hit_ns } else { self.costs.transfer_ns });
        (self.owner, self.free_ns) = (Some(cpu), begin_ns + cost_ns);
        self.free_ns
    }
}
