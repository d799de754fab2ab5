//! The device's side: takes messages, and answers as the load says.

use super::counts::Counts;
use super::message::{Message, Protocol};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::{Handler, Rest};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::ExactClock;

/// Returns a handler that sends each message back.
pub(super) fn echoing(queue: &TxQueue, seen: &Arc<Counts>) -> Result<Handler, QueueError> {
    let (mut sender, seen) = (queue.sender("echo")?, seen.clone());
    Ok(Box::new(move |burst: &mut Burst| {
        let offered = burst.len();
        let sent = sender.send(burst, Wait::Never);
        seen.arrived.fetch_add((offered - burst.len()) as u64, Relaxed);
        if sent.is_ok() && !burst.is_empty() { Rest::Again } else { Rest::Free }
    }))
}

/// Returns a handler that does not answer.
pub(super) fn silent(seen: &Arc<Counts>) -> Handler {
    let seen = seen.clone();
    Box::new(move |burst: &mut Burst| {
        note(&seen, burst, |_| {});
        Rest::Free
    })
}

/// Returns a handler that acknowledges each flow's progress once per poll, as TCP does without delayed
/// acknowledgements.
pub(super) fn acknowledging(queue: &TxQueue, flows: u32, seen: &Arc<Counts>) -> Result<Handler, QueueError> {
    let (sender, seen) = (queue.sender("acknowledgements")?, seen.clone());
    let mut owed = PendingAcks { last: vec![None; flows as usize], sender, burst: queue.pool().burst(1) };
    let mut is_noted = false;
    Ok(Box::new(move |burst: &mut Burst| {
        if !is_noted {
            note(&seen, burst, |message| {
                if let Some(last) = owed.last.get_mut(message.flow as usize) {
                    *last = Some(message);
                }
            });
        }
        is_noted = !owed.pay();
        if is_noted { Rest::Again } else { Rest::Free }
    }))
}

/// Counts messages, and records their delays.
fn note(seen: &Counts, burst: &mut Burst, mut see: impl FnMut(Message)) {
    let (count, now_ns) = (burst.len() as u64, ExactClock.now_ns());
    let mut times = seen.times();
    for message in Message::all(burst) {
        times.record(now_ns.saturating_sub(message.time_ns));
        see(message);
    }
    drop(times);
    seen.arrived.fetch_add(count, Relaxed);
}

/// Acknowledgements to send.
struct PendingAcks {
    /// The last message of each flow.
    last: Vec<Option<Message>>,
    sender: Sender,
    burst: Burst,
}

impl PendingAcks {
    /// Sends them. True if all went in; the others are sent again.
    fn pay(&mut self) -> bool {
        let Self { last, sender, burst } = self;
        for owed in last.iter_mut() {
            let Some(message) = owed else { continue };
            if burst.is_empty()
                && sender.fill(burst, 1, Protocol::Tcp.frame_bytes(0), Wait::Never).unwrap_or(0) == 0
            {
                return false;
            }
            burst.iter_mut().for_each(|frame| message.write(frame));
            match sender.send(burst, Wait::Never) {
                Ok(sent) if sent.accepted == 0 => return false,
                _ => *owed = None,
            }
        }
        true
    }
}
