//! `Reconnector`: the thread that waits for a back end to come back, and sets up virtqueues with it. Messages
//! may take long to be answered, and the thread that moves frames may serve other devices.

use super::connect::has_no_listener;
use super::pairs::Pairs;
use super::session::{Endpoint, Session, Shared};
use crate::virtio::DriverRing;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, park_timeout};
use std::time::Duration;
use wharf_core::device::DeviceError;
use wharf_mem::{Region, lock};

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(200);
/// Times that back ends may refuse what the one before has left, or end meanwhile: then they get new rings.
const REFUSALS_MAX: u32 = 3;

/// A connection whose virtqueues run; `None` if they are those of the connection before.
pub(super) type Connected<R> = (Session, Option<(Arc<Shared>, Pairs<R>)>);

/// The virtqueues of a back end that is gone, and its positions.
pub(super) type Kept = (Arc<Shared>, Vec<u32>);

#[derive(Debug)]
pub(super) struct Reconnector<R> {
    state: Arc<State>,
    answers: Receiver<Result<Connected<R>, DeviceError>>,
    /// `None` once it is dropped.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    ends: AtomicBool,
    /// The connection that is being made, so that it can be ended from outside.
    stream: Mutex<Option<UnixStream>>,
}

impl<R: DriverRing + 'static> Reconnector<R> {
    /// Waits for a back end that supports the features `agreed` with the earlier one, to give it memory of
    /// `region`. [`Reconnector::answer`] returns it; the endpoint's events notify of that.
    pub(super) fn start(
        endpoint: Endpoint, agreed: u64, region: Arc<Region>, kept: Option<Kept>,
    ) -> io::Result<Self> {
        let (state, (answer, answers)) = (Arc::<State>::default(), channel());
        let mut caller = Attempts { state: state.clone(), endpoint, agreed, region, kept, refusals: 0 };
        let thread = std::thread::Builder::new().name("virtio-user".into());
        let thread = Some(thread.spawn(move || caller.run(&answer))?);
        Ok(Self { state, answers, thread })
    }

    /// Returns the latest result, if there is a new one; a connection is the last.
    pub(super) fn answer(&mut self) -> Option<Result<Connected<R>, DeviceError>> {
        self.answers.try_recv().ok()
    }
}

impl<R> Drop for Reconnector<R> {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        self.state.cut();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread may have panicked: nothing follows from that.
            let _ = thread.join();
        }
    }
}

impl State {
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Notes the connection that is being made, if it is still wanted.
    fn hold(&self, stream: Option<UnixStream>) {
        *lock(&self.stream) = stream;
        if self.ends() {
            self.cut();
        }
    }

    fn cut(&self) {
        if let Some(stream) = lock(&self.stream).take() {
            // The connection may be gone.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

struct Attempts {
    state: Arc<State>,
    endpoint: Endpoint,
    agreed: u64,
    region: Arc<Region>,
    kept: Option<Kept>,
    /// Attempts that failed with what was kept.
    refusals: u32,
}

impl Attempts {
    /// Tries until it succeeds, or is not wanted any more. Reports each error once.
    fn run<R: DriverRing>(&mut self, answer: &Sender<Result<Connected<R>, DeviceError>>) {
        let mut told = String::new();
        while !self.state.ends() {
            let result = self.attempt();
            self.state.hold(None);
            let what = match &result {
                Ok(_) => String::new(),
                Err(DeviceError::Io { source, .. }) if has_no_listener(source) => told.clone(),
                Err(error) => error.to_string(),
            };
            let (is_done, is_new) = (result.is_ok(), what != told);
            if is_done || is_new {
                // The receiver may be gone.
                let _ = answer.send(result);
                self.endpoint.events.tell();
            }
            if is_done {
                return;
            }
            told = what;
            park_timeout(RETRY);
        }
    }

    fn attempt<R: DriverRing>(&mut self) -> Result<Connected<R>, DeviceError> {
        // A listener is tried for again from outside.
        let stream = self.endpoint.connect(|| self.endpoint.options.server && !self.state.ends())?;
        self.state.hold(stream.try_clone().ok());
        let session = Session::open(&self.endpoint, stream, Some(self.agreed))?;
        let may_go_on = session.records && self.refusals < REFUSALS_MAX;
        if let Some((shared, bases)) = self.kept.as_ref().filter(|_| may_go_on) {
            // An attempt before may have ended after its back end had used buffers.
            let bases = session.positions(shared, self.endpoint.options.size, bases);
            let shared = session.share(shared, self.endpoint.options.size, &bases);
            self.refusals += u32::from(shared.is_err());
            return shared.map(|()| (session, None));
        }
        let (shared, queues) = session.start(&self.region, &self.endpoint.options)?;
        let pairs = Pairs::new(queues, shared.buffers.clone(), session.features);
        Ok((session, Some((shared, pairs))))
    }
}
