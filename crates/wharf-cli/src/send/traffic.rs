//! The traffic of a run, one part per sender, and its check.

use wharf::qdisc::Order;
use wharf::queue::QueueError;
use wharf_tools::fault::FailingMemory;
use wharf_tools::traffic::{Drive, Driven, Generator, Replay, Source, Split, StampCheck, Submit, Verify};

/// The traffic of all senders together.
pub(super) enum Traffic {
    Replay {
        split: Split,
        rounds: u64,
    },
    /// The first `senders` share the packets; one more has no end of its own.
    Generated {
        generators: Vec<Generator>,
        senders: u16,
        packets: Option<u64>,
    },
}

/// The traffic of one sender.
pub(super) enum Part {
    Replay(Replay),
    Generated(Generator),
}

impl Traffic {
    /// Returns the parts from the start, one per sender.
    pub(super) fn parts(&self) -> Vec<Part> {
        match self {
            Traffic::Replay { split, rounds } => {
                split.replays(*rounds).into_iter().map(Part::Replay).collect()
            }
            Traffic::Generated { generators, senders, packets } => {
                let (first_beyond, senders) = (*senders, u64::from(*senders));
                let share = |sender: u16| {
                    let packets = packets.filter(|_| sender < first_beyond);
                    packets.map(|all| all / senders + u64::from(u64::from(sender) < all % senders))
                };
                let parts = generators.iter().cloned().map(|generator| match share(generator.sender()) {
                    Some(packets) => Part::Generated(generator.ending_after(packets)),
                    None => Part::Generated(generator),
                });
                parts.collect()
            }
        }
    }

    /// Returns the packets that one frame counts for: those of a super-packet.
    pub(super) fn packets_each(&self) -> u64 {
        match self {
            Traffic::Replay { .. } => 1,
            Traffic::Generated { generators, senders, .. } => generators.first().map_or(1, |generator| {
                let [first, second] = [0, 1].map(|ahead| generator.position(ahead).packets);
                ((second - first) / u64::from(*senders)).max(1)
            }),
        }
    }

    /// Returns what checks it at the other end of a queue that keeps `order`.
    pub(super) fn check(&self, order: Order) -> Box<dyn Verify> {
        match self {
            Traffic::Replay { split, .. } => Box::new(split.check()),
            Traffic::Generated { generators, .. } => Box::new(StampCheck::keeping(generators.clone(), order)),
        }
    }

    /// Returns the bytes of the longest frame.
    pub(super) fn longest_bytes(&self) -> u32 {
        self.parts().iter().map(Part::longest_bytes).max().unwrap_or(0)
    }
}

impl Part {
    fn longest_bytes(&self) -> u32 {
        match self {
            Part::Replay(replay) => replay.longest_bytes(),
            Part::Generated(generator) => generator.longest_bytes(),
        }
    }

    /// Sends all of it.
    pub(super) fn drive(
        self, drive: &Drive<'_>, by: &mut dyn Submit, memory: FailingMemory,
    ) -> Result<Driven, QueueError> {
        match self {
            Part::Replay(mut replay) => drive.run_failing(by, &mut replay, memory),
            Part::Generated(mut generator) => drive.run_failing(by, &mut generator, memory),
        }
    }
}
