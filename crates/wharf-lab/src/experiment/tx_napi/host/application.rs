//! An application with sockets of its own, as over UDP: a thread that sends when it runs, and reads the
//! messages that arrived for it.

use super::guest::Guest;
use super::load::Work;
use super::message::Message;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wharf_core::pool::Burst;
use wharf_core::rx::{Handler, Rest};

/// The flows, and the sockets in which their messages wait.
pub(super) struct Application {
    guest: Guest,
    sockets: Arc<Sockets>,
}

/// Messages that have arrived and were not read yet.
#[derive(Debug, Default)]
struct Sockets {
    arrived: Mutex<Inbox>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct Inbox {
    messages: Vec<Message>,
    /// True if no more will come.
    is_closed: bool,
    /// True while the application waits for a message.
    is_awaited: bool,
}

/// Wakes the application for the last time when it is dropped, for any reason.
pub(super) struct CloseGuard(Arc<Sockets>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.put(|arrived| arrived.is_closed = true);
    }
}

impl Sockets {
    fn arrived(&self) -> MutexGuard<'_, Inbox> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Inbox)) {
        let mut arrived = self.arrived();
        put(&mut arrived);
        let is_awaited = std::mem::take(&mut arrived.is_awaited);
        drop(arrived);
        if is_awaited {
            self.told.notify_one();
        }
    }

    /// Waits until messages have arrived, and takes them all in place of `messages`. False if no more will
    /// come.
    fn read(&self, messages: &mut Vec<Message>) -> bool {
        messages.clear();
        let mut arrived = self.arrived();
        while arrived.messages.is_empty() && !arrived.is_closed {
            arrived.is_awaited = true;
            arrived = self.told.wait(arrived).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(messages, &mut arrived.messages);
        !arrived.is_closed
    }
}

impl Application {
    pub(super) fn new(guest: Guest) -> Self {
        Self { guest, sockets: Arc::default() }
    }

    /// Returns the poller's handler: messages wait for the application, which is woken.
    pub(super) fn hearing(&self) -> Handler {
        let sockets = self.sockets.clone();
        Box::new(move |burst: &mut Burst| {
            sockets.put(|arrived| arrived.messages.extend(Message::all(burst)));
            Rest::Free
        })
    }

    /// Returns a guard to be dropped once it is to stop: it may be waiting.
    pub(super) fn closes(&self) -> CloseGuard {
        CloseGuard(self.sockets.clone())
    }

    /// Sends until it is stopped.
    pub(super) fn run(&mut self, work: Work) {
        match work {
            Work::Stream => self.guest.send_on(),
            Work::RoundTrip => self.converse(),
        }
    }

    /// Lets each flow send a message, and the next one after its answer.
    fn converse(&mut self) {
        let Self { guest, sockets } = self;
        let mut messages = Vec::new();
        guest.pump(true);
        while sockets.read(&mut messages) {
            guest.hear(messages.iter().copied(), true);
            guest.pump(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> Message {
        Message { flow: 0, number, time_ns: 0 }
    }

    #[test]
    fn arrived_messages_are_read_once_and_wake_a_waiting_reader() {
        let sockets = Arc::new(Sockets::default());
        sockets.put(|arrived| arrived.messages.extend([message(1), message(2)]));
        let mut messages = vec![message(9)];
        assert!(sockets.read(&mut messages));
        assert_eq!(messages, [message(1), message(2)]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut messages = Vec::new();
                let mut read = Vec::new();
                while sockets.read(&mut messages) {
                    read.append(&mut messages);
                }
                read
            });
            while !sockets.arrived().is_awaited {
                std::thread::yield_now();
            }
            sockets.put(|arrived| arrived.messages.push(message(3)));
            while !sockets.arrived().is_awaited {
                std::thread::yield_now();
            }
            drop(CloseGuard(sockets.clone()));
            assert_eq!(reader.join().unwrap(), [message(3)]);
        });
    }
}
