//! `FlowList`: the queues of `fq_codel`, and the lists in which they take turns.

use super::codel::CoDel;
use super::slab::{FrameList, NONE};

/// The list that a flow is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    None,
    New,
    Old,
}

/// One queue.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) packets: FrameList,
    pub(super) codel: CoDel,
    /// Bytes that it may still send in its turn.
    pub(super) deficit: i64,
    pub(super) on: On,
    /// The next flow on its list.
    pub(super) next: u32,
}

/// A first-in first-out list of flows.
#[derive(Debug)]
pub(super) struct FlowList {
    pub(super) head: u32,
    tail: u32,
}

impl FlowList {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn push(&mut self, flows: &mut [Flow], at: u32) {
        flows[at as usize].next = NONE;
        match std::mem::replace(&mut self.tail, at) {
            NONE => self.head = at,
            tail => flows[tail as usize].next = at,
        }
    }

    pub(super) fn pop(&mut self, flows: &[Flow]) -> Option<u32> {
        let at = self.head;
        self.head = flows.get(at as usize)?.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(at)
    }
}
