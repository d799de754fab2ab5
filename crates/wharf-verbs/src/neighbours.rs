//! `Neighbours`: a thread that makes address handles (`ibv_create_ah`).
//!
//! On RoCE the provider asks the kernel for the neighbour's Ethernet address in that call, and waits up to a second for a neighbour that
//! is silent. The owner of a queue does not wait with it: completions and arrivals go on, and a later look takes the answer.

use crate::ibverbs::{AddressHandle, Gid, ProtectionDomain};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use wharf_sys::event::EventFd;

/// The GID of a port, and an address handle to the port: `None` if the neighbour does not answer.
type Found = (Gid, Option<AddressHandle>);

#[derive(Debug)]
pub(super) struct Neighbours {
    /// `None` once this is dropped.
    questions: Option<Sender<Gid>>,
    answers: Receiver<Found>,
    /// Readable when an answer has come.
    event: Arc<EventFd>,
    /// Questions without an answer.
    open: usize,
    thread: Option<JoinHandle<()>>,
}

impl Neighbours {
    /// Starts the thread. It makes handles in `domain`, from entry `gid_index` of the GIDs of `port`.
    ///
    /// # Errors
    /// Those of `eventfd(2)`, and of starting a thread.
    pub(super) fn start(domain: ProtectionDomain, port: u8, gid_index: u8) -> io::Result<Self> {
        let (questions, asked) = channel::<Gid>();
        let (found, answers) = channel::<Found>();
        let event = Arc::new(EventFd::new()?);
        let signal = event.clone();
        let answer = move || {
            for gid in asked {
                let address = AddressHandle::new(&domain, port, gid_index, &gid).ok();
                if found.send((gid, address)).is_err() {
                    break;
                }
                signal.signal();
            }
        };
        let thread = Some(Builder::new().name("wharf-neighbour".into()).spawn(answer)?);
        Ok(Self { questions: Some(questions), answers, event, open: 0, thread })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }

    /// Asks for an address handle to the port with `gid`.
    pub(super) fn ask(&mut self, gid: &Gid) {
        // The thread lives as long as this.
        self.open += usize::from(self.questions.as_ref().is_some_and(|to| to.send(*gid).is_ok()));
    }

    /// Shows each answer that has come to `see`.
    pub(super) fn take_answers(&mut self, mut see: impl FnMut(&Gid, Option<AddressHandle>)) {
        for (gid, address) in self.answers.try_iter() {
            self.open -= 1;
            see(&gid, address);
        }
    }
}

impl Drop for Neighbours {
    /// Ends the thread and waits for that: the domain is free then. A thread that is in a call ends after the call, and is not waited
    /// for.
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take_if(|_| self.open == 0) {
            let _ = thread.join();
        }
    }
}
