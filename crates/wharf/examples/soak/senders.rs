//! The senders of a round: their actions and their ends.

use super::device::stamp;
use super::random::Random;
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::Duration;
use wharf::queue::{Park, QueueError, TxQueue, Wake};
use wharf::{Burst, SendError, Sender, Wait};
use wharf_devices::host::HostPark;

/// The message of a panic that is part of the soak.
struct Wanted;

/// Panics on purpose, without the message of an unintended panic.
pub fn panic_quietly(what: &'static str) -> ! {
    let _ = what;
    std::panic::panic_any(Wanted)
}

/// Keeps intended panics out of the output.
pub fn silence_wanted_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Wanted>() {
            usual(info);
        }
    }));
}

/// Returns the message of a thread that ended too soon.
pub fn what_panicked(ended: std::thread::Result<()>) -> String {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("something".into(), |text| text.to_string()),
    };
    format!("a thread panicked: {}", ended.map_or_else(text, |()| "without a word".into()))
}

thread_local! {
    /// Number of waits after which a thread dies in the middle of one; 0 for never.
    static DIES_IN: Cell<u64> = const { Cell::new(0) };
}

/// The host's threads, of which some die while they wait.
#[derive(Debug)]
pub struct Mortal;

impl Park for Mortal {
    fn waker(&self) -> Arc<dyn Wake> {
        HostPark.waker()
    }

    fn park(&self, timeout_ns: u64) {
        DIES_IN.with(|dies_in| match dies_in.get() {
            0 => {}
            1 => {
                dies_in.set(0);
                panic_quietly("a waiting sender");
            }
            left => dies_in.set(left - 1),
        });
        HostPark.park(timeout_ns);
    }
}

/// A task's waker; every so often one panics.
struct TaskWaker {
    thread: Thread,
    panics: bool,
}

impl std::task::Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
        if self.panics {
            panic_quietly("a waker");
        }
    }
}

/// The shared state of all senders of a round.
pub struct Crowd {
    pub queue: TxQueue,
    pub stop: AtomicBool,
    /// The next sender's number.
    pub names: AtomicU64,
    pub died: AtomicU64,
    pub given_up: AtomicU64,
    /// The first unintended failure.
    pub fault: OnceLock<String>,
}

impl Crowd {
    /// Runs one thread's senders, one after the other, until the end of the round.
    pub fn come_and_go(&self, mut random: Random) {
        while !self.stop.load(SeqCst) {
            let life = catch_unwind(AssertUnwindSafe(|| self.live(&mut random)));
            DIES_IN.with(|dies_in| dies_in.set(0));
            match life {
                Ok(Ok(())) => {}
                Ok(Err(SendError::Closed | SendError::Ended { .. })) => return,
                Ok(Err(error)) => _ = self.fault.set(error.to_string()),
                Err(panic) if panic.is::<Wanted>() => _ = self.died.fetch_add(1, SeqCst),
                Err(panic) => _ = self.fault.set(what_panicked(Err(panic))),
            }
            if self.fault.get().is_some() {
                return;
            }
        }
    }

    /// Runs one sender from creation to its end.
    fn live(&self, random: &mut Random) -> Result<(), SendError> {
        let name = self.names.fetch_add(1, SeqCst);
        let mut sender = match self.queue.sender(&format!("sender {name}")) {
            Ok(sender) => sender,
            Err(QueueError::Closed | QueueError::Ended { .. }) => return Err(SendError::Closed),
            Err(error) => {
                _ = self.fault.set(error.to_string());
                return Err(SendError::Closed);
            }
        };
        let mut life = Life { crowd: self, name, next: 0 };
        if random.once_in(4) {
            DIES_IN.with(|dies_in| dies_in.set(1 + random.below(20)));
        }
        for _ in 0..random.below(400) {
            if self.stop.load(SeqCst) {
                return Ok(());
            }
            sender = life.step(sender, random)?;
        }
        Ok(())
    }
}

struct Life<'a> {
    crowd: &'a Crowd,
    name: u64,
    next: u64,
}

impl Life<'_> {
    fn step(&mut self, mut sender: Sender, random: &mut Random) -> Result<Sender, SendError> {
        let mut burst = self.filled(&mut sender, random)?;
        match random.below(20) {
            0 => {
                // It sends half of the burst, then dies with the rest in hand.
                let dies = random.once_in(8);
                _ = sender.send(&mut burst, Wait::Never)?;
                if dies {
                    resume_unwind(Box::new(Wanted));
                }
            }
            1..3 => _ = sender.send_or_drop(&mut burst, Wait::Never)?,
            3 => _ = sender.send_or_drop(&mut burst, Duration::from_micros(random.below(2000)))?,
            4..8 => self.as_a_task(&mut sender, &mut burst, random)?,
            8 => {
                // It cancels its place in the wait list, served or not.
                let mut watch = sender.watch(1, burst.len(), HostPark.waker());
                _ = sender.look(&mut watch).transpose()?;
                self.crowd.given_up.fetch_add(1, SeqCst);
            }
            _ => _ = sender.send(&mut burst, Wait::Forever)?,
        }
        if random.once_in(50) {
            std::thread::sleep(Duration::from_micros(random.below(2000)));
        }
        Ok(sender)
    }

    fn filled(&mut self, sender: &mut Sender, random: &mut Random) -> Result<Burst, SendError> {
        let count = random.one_of(&[1, 1, 2, 8, 32, 64]);
        let mut burst = sender.burst(count);
        let len_bytes = random.one_of(&[60, 60, 590, 1514]);
        sender.fill(&mut burst, count, len_bytes, Wait::Forever)?;
        for bytes in burst.iter_mut() {
            stamp(bytes, self.name, self.next);
            self.next += 1;
        }
        Ok(burst)
    }

    /// Sends as a task whose future may be dropped early.
    fn as_a_task(
        &self, sender: &mut Sender, burst: &mut Burst, random: &mut Random,
    ) -> Result<(), SendError> {
        let task = TaskWaker { thread: std::thread::current(), panics: false };
        let bad = TaskWaker { panics: random.once_in(16), ..task };
        // Without a poller a waiting task wakes itself, and the panic would be in its own thread.
        let waker = Waker::from(Arc::new(bad));
        let patience = random.one_of(&[1, 2, 4, u64::MAX]);
        let mut send = pin!(sender.send_async(burst));
        let mut polls = 0;
        loop {
            match send.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(sent) => return sent.map(drop),
                Poll::Pending if polls >= patience => {
                    self.crowd.given_up.fetch_add(1, SeqCst);
                    return Ok(());
                }
                Poll::Pending => std::thread::park_timeout(Duration::from_micros(500)),
            }
            polls += 1;
        }
    }
}
