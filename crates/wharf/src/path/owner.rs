//! `Owners`: the threads that run a path's transmit queue.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use wharf_core::queue::TxQueue;

/// Longest sleep of an owner without work: a stop is seen by then.
const NAP_NS: u64 = 10_000_000;

/// The threads that run a path's transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owners {
    /// The senders, by turns, each for a quota; a poller's thread for what they leave. No thread is busy without
    /// traffic, and a packet on an idle queue leaves in its sender's call.
    #[default]
    Senders,
    /// One thread, which sleeps while there is nothing to do. Senders only publish: one that is stopped or has a low
    /// priority holds up no other. The path then cannot receive by the same device.
    Poller {
        /// The processor that it keeps to.
        cpu: Option<usize>,
    },
    /// Works like [`Owners::Poller`], but never sleeps: for a processor of its own.
    Busy {
        /// The processor that it keeps to.
        cpu: usize,
    },
}

impl Owners {
    pub(super) fn cpu(self) -> Option<usize> {
        match self {
            Owners::Senders => None,
            Owners::Poller { cpu } => cpu,
            Owners::Busy { cpu } => Some(cpu),
        }
    }
}

/// A thread that owns a queue until this is dropped.
#[derive(Debug)]
pub(super) struct OwnerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OwnerThread {
    /// Starts one, unless senders own the queue.
    pub(super) fn start(queue: &TxQueue, owners: Owners) -> std::io::Result<Option<Self>> {
        if owners == Owners::Senders {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (queue, stopped) = (queue.clone(), stop.clone());
        let (begun, begins) = mpsc::channel();
        let thread = thread::Builder::new().name("wharf-owner".into()).spawn(move || {
            if let Some(cpu) = owners.cpu() {
                // The builder has checked that there is such a processor; without it, the thread runs on any other.
                let _ = wharf_devices::host::pin(cpu);
            }
            run(&queue, owners, &stopped, begun);
        })?;
        // Senders that come before would own the queue. The channel also ends with the thread.
        let _ = begins.recv();
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

fn run(queue: &TxQueue, owners: Owners, stopped: &AtomicBool, begun: mpsc::Sender<()>) {
    // A queue that is dead tells its senders so.
    let Ok(mut owner) = queue.dedicate() else { return };
    drop(begun);
    while !stopped.load(Relaxed) {
        match owners {
            Owners::Busy { .. } => owner.poll(),
            _ => owner.poll_or_sleep(NAP_NS),
        };
    }
}

impl Drop for OwnerThread {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A device that panicked has marked its queue dead already.
            let _ = thread.join();
        }
    }
}
