//! A queueing discipline of one's own: `drop_nth[:n=10]` is first in, first out, and drops every n-th packet as it would leave.
//! `own-device send --size 60 --count 20 --to hex:out.txt --qdisc drop_nth:n=5`, for tests of loss on any device.
//!
//! - [`KIND`] is all that a registry wants to know. `--qdisc` reads its options, and `--help` lists them.
//! - The owner of the queue is its only caller, so that it needs no lock. It allocates only in `reserve`.
//! - A frame that goes in leaves by `dequeue`, or is dropped and counted by [`QdiscContext::drop`] with a reason.
//! - `backpressure` has senders wait at [`LIMIT`]. It stores more than that: what the senders' lanes hold.

use std::collections::VecDeque;
use wharf::device::{Batch, Frame, Key};
use wharf::qdisc::{Backpressure, Limit, Order, Qdisc, QdiscContext, QdiscKind};

/// Packets that it holds before senders wait.
const LIMIT: usize = 1000;

/// The kind of discipline.
pub static KIND: QdiscKind = QdiscKind {
    name: "drop_nth",
    usage: "drop_nth[:n=N]",
    summary: "every N-th packet is dropped, 10 by default",
    takes_limit: false,
    order: Order::All,
    keys: &[Key::number("n", 1..=1 << 32, "1 to 4g", "10", "One packet in so many is dropped")],
    packets: |_| LIMIT,
    build: |spec, _| {
        let n = spec.options().number("n").unwrap_or(10);
        Box::new(DropNth { frames: VecDeque::with_capacity(LIMIT), capacity: LIMIT, n, seen: 0 })
    },
};

/// The discipline.
struct DropNth {
    frames: VecDeque<Frame>,
    /// Frames that it takes: its limit, and what senders' lanes hold.
    capacity: usize,
    n: u64,
    seen: u64,
}

impl Qdisc for DropNth {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn reserve(&mut self, frames: usize) {
        self.capacity += frames;
        self.frames.reserve(self.capacity - self.frames.len());
    }

    fn storage(&self) -> usize {
        self.capacity - self.frames.len()
    }

    fn enqueue(&mut self, _cx: &mut QdiscContext<'_>, from: &mut Batch) {
        while self.storage() > 0 {
            let Some(frame) = from.pop() else { return };
            self.frames.push_back(frame);
        }
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        let (mut packets, mut bytes) = (0, 0);
        // At least one frame leaves, even if the byte limit is 0 as yet.
        while packets < limit.packets && bytes < limit.bytes.max(1) && to.room() > 0 {
            let Some(frame) = self.frames.pop_front() else { return };
            self.seen += 1;
            if self.seen.is_multiple_of(self.n) {
                cx.drop(frame, "drop-nth");
                continue;
            }
            (packets, bytes) = (packets + 1, bytes + u64::from(frame.len_bytes()));
            // There is room.
            drop(to.push(frame));
        }
    }

    fn len(&self) -> usize {
        self.frames.len()
    }

    fn backpressure(&self) -> Backpressure {
        Backpressure::of_all(LIMIT.saturating_sub(self.len()), self.len() <= LIMIT / 2)
    }

    fn purge(&mut self, to: &mut Batch) {
        while to.room() > 0 {
            let Some(frame) = self.frames.pop_front() else { return };
            // There is room.
            drop(to.push(frame));
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.frames.iter().for_each(see);
    }

    fn stats(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("seen", self.seen);
    }
}
