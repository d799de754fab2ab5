//! The traffic of a run, one part per sender, and its check.

use std::sync::{Mutex, MutexGuard};
use wharf::SendError;
use wharf::qdisc::Order;
use wharf_tools::traffic::{
    Drive, Driven, Generator, Replay, Source, Split, StampCheck, StreamReplay, StreamState, Submit, Verify,
};

/// Bytes of memory of a frame, at least by default.
pub(super) const FRAME_BYTES: u32 = 2048;
/// Bytes of a frame's memory beside its data, by default: headroom, and placement.
pub(super) const BESIDE_BYTES: u32 = 512;

/// The traffic of all senders together.
pub(super) enum Traffic {
    Stream(Stream),
    Replay {
        split: Split,
        rounds: u64,
        packets: u64,
    },
    /// The first `senders` share the packets; one more has no end of its own.
    Generated {
        generators: Vec<Generator>,
        senders: u16,
        packets: Option<u64>,
    },
}

/// A capture that is read as it is sent, for one sender and one run.
pub(super) struct Stream {
    /// Taken by the sender.
    replay: Mutex<Option<Box<StreamReplay>>>,
    pub(super) state: StreamState,
    longest_bytes: u32,
}

impl Stream {
    pub(super) fn new(replay: StreamReplay) -> Self {
        let (state, longest_bytes) = (replay.state(), replay.longest_bytes());
        Self { replay: Mutex::new(Some(Box::new(replay))), state, longest_bytes }
    }

    fn replay(&self) -> MutexGuard<'_, Option<Box<StreamReplay>>> {
        wharf_mem::lock(&self.replay)
    }
}

/// The traffic of one sender.
pub(super) enum Part {
    Stream(Box<StreamReplay>),
    Replay(Replay),
    Generated(Generator),
}

impl Traffic {
    /// Returns the parts from the start, one per sender.
    pub(super) fn parts(&self) -> Vec<Part> {
        match self {
            Traffic::Stream(stream) => stream.replay().take().map(Part::Stream).into_iter().collect(),
            Traffic::Replay { split, rounds, packets } => {
                split.replays(*rounds, *packets).into_iter().map(Part::Replay).collect()
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
            Traffic::Stream(_) | Traffic::Replay { .. } => 1,
            Traffic::Generated { generators, senders, .. } => generators.first().map_or(1, |generator| {
                let [first, second] = [0, 1].map(|ahead| generator.position(ahead).packets);
                ((second - first) / u64::from(*senders)).max(1)
            }),
        }
    }

    /// Returns what checks it at the other end of a queue that keeps `order`. At most `frames_max` frames are
    /// under way.
    pub(super) fn check(&self, order: Order, frames_max: u32) -> Box<dyn Verify> {
        match self {
            Traffic::Stream(stream) => match &*stream.replay() {
                Some(replay) => Box::new(replay.check(order, frames_max as usize)),
                None => Box::new(StampCheck::keeping(Vec::new(), order)),
            },
            Traffic::Replay { split, .. } => Box::new(split.check()),
            Traffic::Generated { generators, .. } => Box::new(StampCheck::keeping(generators.clone(), order)),
        }
    }

    /// Returns the bytes of the longest frame.
    pub(super) fn longest_bytes(&self) -> u32 {
        match self {
            Traffic::Stream(stream) => stream.longest_bytes,
            _ => self.parts().iter().map(Part::longest_bytes).max().unwrap_or(0),
        }
    }
}

impl Part {
    fn longest_bytes(&self) -> u32 {
        match self {
            Part::Stream(replay) => replay.longest_bytes(),
            Part::Replay(replay) => replay.longest_bytes(),
            Part::Generated(generator) => generator.longest_bytes(),
        }
    }

    /// Sends all of it.
    pub(super) fn drive(
        self, drive: &Drive<'_>, by: &mut dyn Submit, fails: impl FnMut() -> bool,
    ) -> Result<Driven, SendError> {
        match self {
            Part::Stream(mut replay) => drive.run_failing(by, &mut *replay, fails),
            Part::Replay(mut replay) => drive.run_failing(by, &mut replay, fails),
            Part::Generated(mut generator) => drive.run_failing(by, &mut generator, fails),
        }
    }
}

/// Returns the bytes of memory of a frame into which `len_bytes` fit, at most
/// [`wharf_mem::FRAME_BYTES_MAX`]: no frame of any traffic is too long for that.
pub(super) fn frame_bytes_for(len_bytes: u32) -> u32 {
    (len_bytes + BESIDE_BYTES).next_multiple_of(64).max(FRAME_BYTES)
}
