//! The virtual machine's side: flows that send, each by a sender of its own, and the answers.

use super::counts::Counts;
use super::load::Work;
use super::message::Message;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::{Handler, Rest};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::ExactClock;

/// The time after which an application that waits looks whether it is to stop.
const NAP: Duration = Duration::from_millis(5);

/// A flow's way of sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sends {
    pub(super) frame_bytes: u32,
    /// Messages at a time.
    pub(super) burst_packets: usize,
    /// Messages that may be unanswered.
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
pub(super) struct Flows {
    flows: Vec<Flow>,
    sends: Sends,
    seen: Arc<Counts>,
    burst: Burst,
}

impl Flows {
    /// Creates flows that send by `queue`.
    pub(super) fn new(
        queue: &TxQueue, flows: u32, sends: Sends, seen: &Arc<Counts>,
    ) -> Result<Self, QueueError> {
        let flow = |number: u32| {
            let sender = queue.sender(&format!("flow {number}"))?;
            Ok(Flow { number, sender, sent: 0, answered: 0 })
        };
        let flows = (0..flows).map(flow).collect::<Result<_, QueueError>>()?;
        Ok(Self { flows, sends, seen: seen.clone(), burst: queue.pool().burst(sends.burst_packets) })
    }

    /// Lets each flow send as its window and the path allow. `waits` decides if it waits for the path.
    pub(super) fn pump(&mut self, waits: bool) {
        let Self { flows, sends, seen, burst } = self;
        for flow in flows {
            let mut goes_on = true;
            while goes_on && !seen.stop.load(Relaxed) {
                goes_on = flow.send(sends, seen, burst, waits) || (waits && flow.room(sends) > 0);
            }
        }
    }

    /// Lets each flow in turn send a burst, without answers. If none can, one waits.
    fn send_on(&mut self) {
        let Self { flows, sends, seen, burst } = self;
        let (mut refused, count) = (0, flows.len());
        while !seen.stop.load(Relaxed) {
            for flow in &mut *flows {
                let waits = refused >= count;
                refused = if flow.send(sends, seen, burst, waits) { 0 } else { refused + 1 };
            }
        }
    }

    /// Returns the poller's handler of answers: windows open, round trips are recorded.
    pub(super) fn hearing(mut self, is_round_trip: bool) -> Handler {
        Box::new(move |burst: &mut Burst| {
            self.hear(Message::all(burst), is_round_trip);
            self.pump(false);
            Rest::Free
        })
    }

    /// Handles messages that have come back.
    fn hear(&mut self, messages: impl Iterator<Item = Message>, is_round_trip: bool) {
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
    /// Returns the number of messages that its window permits.
    fn room(&self, sends: &Sends) -> u64 {
        sends.window_packets.saturating_sub(self.sent - self.answered.min(self.sent))
    }

    /// Takes `count` frames, or fewer if there are no more; `waits` decides if it waits for them. True if it
    /// got any.
    fn fill(&mut self, burst: &mut Burst, count: usize, frame_bytes: u32, waits: bool) -> bool {
        let mut has_some = |sender: &mut Sender| {
            sender.fill(burst, count, frame_bytes, Wait::Never).is_ok_and(|filled| filled > 0)
                || !burst.is_empty()
        };
        let sender = &mut self.sender;
        // A sender that waits for memory and then takes none keeps it from the others for a while.
        has_some(sender) || (waits && sender.wait_for_memory(Wait::Forever).is_ok() && has_some(sender))
    }

    /// Sends as much of a burst as the window permits. True if any went in.
    fn send(&mut self, sends: &Sends, seen: &Counts, burst: &mut Burst, waits: bool) -> bool {
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
            // The counters report a closed or dead queue at the end.
            let _ = self.sender.send(burst, if waits { Wait::Forever } else { Wait::Never });
            (offered - burst.len()) as u64
        });
        burst.clear();
        self.sent += sent;
        sent > 0
    }
}

/// An application with sockets of its own, as over UDP: a thread that sends when it runs, and reads the messages that
/// arrived for it.
pub(super) struct Application {
    flows: Flows,
    /// The messages of each burst that arrived.
    socket: Receiver<Vec<Message>>,
}

impl Application {
    /// Creates it, and the poller's handler: messages wait for the application, which is woken.
    pub(super) fn new(flows: Flows) -> (Self, Handler) {
        let (arrived, socket) = channel();
        let handler = move |burst: &mut Burst| {
            // An application that has stopped reads nothing more.
            let _ = arrived.send(Message::all(burst).collect());
            Rest::Free
        };
        (Self { flows, socket }, Box::new(handler))
    }

    /// Sends until it is stopped.
    pub(super) fn run(&mut self, work: Work) {
        match work {
            Work::Stream => self.flows.send_on(),
            Work::RoundTrip => self.converse(),
        }
    }

    /// Lets each flow send a message, and the next one after its answer.
    fn converse(&mut self) {
        let Self { flows, socket } = self;
        flows.pump(true);
        while !flows.seen.stop.load(Relaxed) {
            let Ok(first) = socket.recv_timeout(NAP) else { continue };
            flows.hear(first.into_iter().chain(socket.try_iter().flatten()), true);
            flows.pump(true);
        }
    }
}
