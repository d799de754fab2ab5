//! The senders of a processor, one of which runs at a time.

use super::{SenderSetup, Setup};
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_sim::RunError;

/// A sender with its burst.
pub(super) struct One {
    /// Its number among all.
    pub(super) number: usize,
    pub(super) sender: Sender,
    pub(super) burst: Burst,
    pub(super) setup: SenderSetup,
}

/// The next work of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A burst of so many packets.
    Burst(usize),
    /// None before that time.
    Pause(u64),
}

pub(super) struct Senders {
    all: Vec<One>,
    /// The one that runs, and the end of its time slice.
    at: usize,
    until_ns: u64,
}

impl One {
    /// Fills its burst. Returns the number of packets: none if there is no frame.
    pub(super) fn fill(&mut self) -> usize {
        let filled = self
            .sender
            .fill(&mut self.burst, self.setup.burst, self.setup.frame_bytes, Wait::Never)
            .unwrap_or(0);
        set_up(&mut self.burst, self.number, self.setup.band);
        filled
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
            all.push(One { number, sender, burst, setup: own.clone() });
        }
        Ok(Self { all, at: 0, until_ns: 0 })
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

    /// True if a sender has a burst that is not sent yet: that one runs.
    pub(super) fn has_begun(&mut self) -> bool {
        let begun = self.all.iter().position(|one| !one.burst.is_empty());
        begun.inspect(|&at| self.at = at).is_some()
    }

    /// Lets the next sender run in place of one that has to wait.
    pub(super) fn rotate(&mut self) {
        self.at = (self.at + 1) % self.all.len();
    }

    /// Chooses the next sender with packets: the one that runs, within its slice. Returns the work, and the number of
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
            let one = &mut self.all[self.at];
            // Sends the burst left over from the previous step first.
            if !one.burst.is_empty() {
                return (Next::Burst(0), u64::from(self.at != before));
            }
            let due_ns = one.setup.schedule.due_ns(now_ns);
            if due_ns <= now_ns {
                one.setup.schedule.take();
                return (Next::Burst(one.setup.burst), u64::from(self.at != before));
            }
            earliest_ns = earliest_ns.min(due_ns);
            self.rotate();
        }
        (Next::Pause(earliest_ns), 0)
    }
}
