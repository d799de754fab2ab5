//! The senders of a processor, one of which runs at a time.

use super::driven::Nap;
use super::{SenderSetup, Setup};
use std::sync::Arc;
use wharf_core::model::Wanted;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::sender::{Sender, Watch};
use wharf_core::wait::Wait;
use wharf_sim::RunError;

/// How a sender waits.
#[derive(Debug, Default)]
pub(super) enum Hold {
    /// It does not.
    #[default]
    Nothing,
    /// It looks: so many looks are done, and so many are the most.
    Looks { wanted: Wanted, done: u32, most: u32 },
    /// It runs the queue, which no thread owned.
    Runs(Wanted, u32),
    /// It sleeps since that time, when so many packets had left.
    Sleeps { watch: Watch, nap: Arc<Nap>, since_ns: u64, gone: u64 },
}

/// A sender with its burst.
pub(super) struct One {
    /// Its number among all.
    pub(super) number: usize,
    pub(super) sender: Sender,
    pub(super) burst: Burst,
    pub(super) setup: SenderSetup,
    /// How it waits for room or completions.
    pub(super) hold: Hold,
}

/// The next work of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A burst of so many packets.
    Burst(usize),
    /// A wait that goes on.
    Held,
    /// None before that time.
    Pause(u64),
}

pub(super) struct Senders {
    all: Vec<One>,
    /// The one that runs, and the end of its time slice.
    at: usize,
    until_ns: u64,
    /// The time before a packet is due in which its sender spins, and keeps the processor.
    spin_ns: u64,
}

impl One {
    pub(super) fn sleeps(&self) -> bool {
        matches!(self.hold, Hold::Sleeps { .. })
    }

    pub(super) fn is_woken(&self) -> bool {
        matches!(&self.hold, Hold::Sleeps { nap, .. } if nap.is_rung())
    }

    /// Fills its burst. Returns the number of packets: none if there is no frame.
    pub(super) fn fill(&mut self) -> usize {
        let filled = self
            .sender
            .fill(&mut self.burst, self.setup.burst, self.setup.frame_bytes, Wait::Never)
            .unwrap_or(0);
        set_up(&mut self.burst, self.number, self.setup.band);
        filled
    }

    /// Returns its next work, or the time at which there is some.
    fn work(&mut self, now_ns: u64, spin_ns: u64) -> Result<Next, u64> {
        if self.sleeps() && !self.is_woken() {
            return Err(u64::MAX);
        }
        if !matches!(self.hold, Hold::Nothing) {
            return Ok(Next::Held);
        }
        // Sends the burst left over from the previous step first.
        if !self.burst.is_empty() {
            return Ok(Next::Burst(0));
        }
        let due_ns = self.setup.schedule.due_ns(now_ns);
        if due_ns <= now_ns {
            self.setup.schedule.take();
            return Ok(Next::Burst(self.setup.burst));
        }
        if due_ns - now_ns < spin_ns { Ok(Next::Pause(due_ns)) } else { Err(due_ns) }
    }
}

/// Makes the packets of a burst those of sender `number`: a flow of their own, and their band.
pub(crate) fn set_up(burst: &mut Burst, number: usize, band: Option<u8>) {
    for bytes in burst.iter_mut() {
        if let Some(address) = bytes.first_chunk_mut::<2>() {
            *address = (number as u16).to_be_bytes();
        }
    }
    if let Some(band) = band {
        burst.packets_mut().for_each(|mut packet| packet.set_band(band + 1));
    }
}

impl Senders {
    /// Creates the senders of processor `cpu`: at least one.
    pub(super) fn new(queue: &TxQueue, setup: &Setup, cpu: usize) -> Result<Self, RunError> {
        let mut all = Vec::new();
        for (number, own) in setup.senders.iter().enumerate().skip(cpu).step_by(setup.cpus) {
            let sender = queue.sender(&format!("cpu{number}"))?;
            let burst = sender.burst(own.burst);
            all.push(One { number, sender, burst, setup: own.clone(), hold: Hold::default() });
        }
        let spin_ns = setup.threads.map_or(0, |threads| threads.spin_ns);
        Ok(Self { all, at: 0, until_ns: 0, spin_ns })
    }

    /// Returns the sender that runs.
    pub(super) fn one(&mut self) -> &mut One {
        &mut self.all[self.at]
    }

    /// Returns the packets that all of them have sent.
    pub(super) fn offered(&self) -> u64 {
        self.all.iter().map(|one| one.sender.counters().packets.get()).sum()
    }

    /// True if the first sender has packets from the beginning.
    pub(super) fn is_due(&self) -> bool {
        self.all.first().is_some_and(|one| one.setup.schedule.due_ns(0) == 0)
    }

    /// True if a sender has a burst that is not sent yet, and does not sleep: that one runs.
    pub(super) fn has_begun(&mut self) -> bool {
        let goes_on = |one: &One| !one.burst.is_empty() && (!one.sleeps() || one.is_woken());
        let begun = self.all.iter().position(goes_on);
        begun.inspect(|&at| self.at = at).is_some()
    }

    /// True if a sender that sleeps has been woken.
    pub(super) fn is_woken(&self) -> bool {
        self.all.iter().any(One::is_woken)
    }

    /// True if another one than the sender that runs could run.
    pub(super) fn others_could_run(&self, now_ns: u64) -> bool {
        let could = |(at, one): (usize, &One)| {
            let is_due = !one.burst.is_empty() || one.setup.schedule.due_ns(now_ns) <= now_ns;
            at != self.at && is_due && (!one.sleeps() || one.is_woken())
        };
        self.all.iter().enumerate().any(could)
    }

    /// Lets the next sender run in place of one that has to wait.
    pub(super) fn rotate(&mut self) {
        self.at = (self.at + 1) % self.all.len();
    }

    /// Chooses the next sender with work: the one that runs, within its slice. Returns the work, and the
    /// number of
    /// switches to it.
    pub(super) fn next(&mut self, now_ns: u64, slice_ns: u64) -> (Next, u64) {
        let before = self.at;
        if now_ns >= self.until_ns {
            self.until_ns = now_ns + slice_ns.max(1);
            if now_ns > 0 {
                self.rotate();
            }
        }
        let mut earliest_ns = u64::MAX;
        for _ in 0..self.all.len() {
            match self.all[self.at].work(now_ns, self.spin_ns) {
                Ok(Next::Pause(due_ns)) => return (Next::Pause(due_ns.min(self.until_ns)), 0),
                Ok(next) => return (next, u64::from(self.at != before)),
                Err(due_ns) => earliest_ns = earliest_ns.min(due_ns),
            }
            self.rotate();
        }
        (Next::Pause(earliest_ns), 0)
    }
}
