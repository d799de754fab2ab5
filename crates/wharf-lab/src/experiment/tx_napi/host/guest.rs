//! The virtual machine's side: flows that send, each by a sender of its own, and what they hear.

use super::message::Message;
use super::seen::Seen;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::{Handler, Rest};
use wharf_core::sender::Sender;
use wharf_devices::host::ExactClock;

/// How a flow sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sends {
    pub(super) frame_bytes: u32,
    /// Messages at a time.
    pub(super) burst_packets: usize,
    /// Messages that may be without an answer.
    pub(super) window_packets: u64,
}

/// One flow.
struct Flow {
    number: u32,
    sender: Sender,
    sent: u64,
    answered: u64,
}

/// All flows.
pub(super) struct Guest {
    flows: Vec<Flow>,
    sends: Sends,
    seen: Arc<Seen>,
    burst: Burst,
}

impl Guest {
    /// So many flows that send by `queue`.
    pub(super) fn new(
        queue: &TxQueue, flows: u32, sends: Sends, seen: &Arc<Seen>,
    ) -> Result<Self, QueueError> {
        let flow = |number: u32| {
            let sender = queue.sender(&format!("flow {number}"))?;
            Ok(Flow { number, sender, sent: 0, answered: 0 })
        };
        let flows = (0..flows).map(flow).collect::<Result<_, QueueError>>()?;
        Ok(Self { flows, sends, seen: seen.clone(), burst: queue.pool().burst(sends.burst_packets) })
    }

    /// Each flow sends as much as its window lets it, and the path, which it `waits` for or not.
    pub(super) fn pump(&mut self, waits: bool) {
        let Self { flows, sends, seen, burst } = self;
        for flow in flows {
            let mut goes_on = true;
            while goes_on && !seen.stop.load(Relaxed) {
                goes_on = flow.send(sends, seen, burst, waits) || (waits && flow.room(sends) > 0);
            }
        }
    }

    /// Without answers: each flow in turn sends a burst, and where none can, one waits.
    pub(super) fn send_on(&mut self) {
        let Self { flows, sends, seen, burst } = self;
        let (mut refused, count) = (0, flows.len());
        while !seen.stop.load(Relaxed) {
            for flow in &mut *flows {
                let waits = refused >= count;
                refused = if flow.send(sends, seen, burst, waits) { 0 } else { refused + 1 };
            }
        }
    }

    /// What the poller does with what it hears: windows open, round trips are noted.
    pub(super) fn hearing(mut self, is_round_trip: bool) -> Handler {
        Box::new(move |burst: &mut Burst| {
            self.hear(Message::all(burst), is_round_trip);
            self.pump(false);
            Rest::Free
        })
    }

    /// These have come back.
    pub(super) fn hear(&mut self, messages: impl Iterator<Item = Message>, is_round_trip: bool) {
        let now_ns = ExactClock.now_ns();
        let mut times = self.seen.times();
        for message in messages {
            if let Some(flow) = self.flows.get_mut(message.flow as usize) {
                flow.answered = flow.answered.max(message.number);
            }
            if is_round_trip {
                times.record(now_ns.saturating_sub(message.time_ns));
            }
        }
    }
}

impl Flow {
    /// Messages that its window lets through.
    fn room(&self, sends: &Sends) -> u64 {
        sends.window_packets.saturating_sub(self.sent - self.answered.min(self.sent))
    }

    /// Takes `count` frames, or fewer where there are no more, for which it `waits` or not; whether any.
    fn fill(&mut self, burst: &mut Burst, count: usize, frame_bytes: u32, waits: bool) -> bool {
        let mut has_some =
            |sender: &mut Sender| sender.fill(burst, count, frame_bytes).is_ok() || !burst.is_empty();
        let sender = &mut self.sender;
        // Whoever waits for memory and then takes none keeps it from the others for a while.
        has_some(sender) || (waits && sender.wait_for_memory().is_ok() && has_some(sender))
    }

    /// Sends a burst, or what the window lets through of it; whether anything went in.
    fn send(&mut self, sends: &Sends, seen: &Seen, burst: &mut Burst, waits: bool) -> bool {
        let count = usize::try_from(self.room(sends)).unwrap_or(usize::MAX).min(sends.burst_packets);
        if count == 0 {
            return false;
        }
        if !self.fill(burst, count, sends.frame_bytes, waits) {
            return false;
        }
        let (offered, time_ns) = (burst.len(), ExactClock.now_ns());
        for (at, frame) in burst.iter_mut().enumerate() {
            Message { flow: self.number, number: self.sent + 1 + at as u64, time_ns }.write(frame);
        }
        let sent = seen.send(|| {
            // A queue that is closed, or dead, is told of by its counters at the end.
            let _ = if waits { self.sender.send(burst) } else { self.sender.try_send(burst).map(|_| ()) };
            (offered - burst.len()) as u64
        });
        burst.clear();
        self.sent += sent;
        sent > 0
    }
}
