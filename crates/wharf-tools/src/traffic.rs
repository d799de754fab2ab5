//! Traffic to send and to check: captures replayed, packets generated, receivers that compare every byte.
//!
//! One sender's frames come from a [`Source`]: a [`Replay`] of a [`Capture`] or a [`Generator`]. [`Drive`]
//! sends them at a [`Pace`], and [`Timed`] notes how well that was kept. At the other end a [`Receiver`] gives
//! each frame to a [`Check`]: one that knows what must come next from each sender ([`ReplayCheck`],
//! [`StampCheck`]), or one that takes what comes ([`Arrivals`]). A [`Recorder`] writes it to a file on the way.
//!
//! Several senders share a capture by flow ([`flow_hash`]), so that the packets of one flow stay in order.

mod arrivals;
mod capture;
mod check;
mod drive;
mod echo;
mod flow;
mod generate;
mod headers;
mod latency;
mod pace;
mod receive;
mod record;
mod replay;
mod stamp;
mod super_packet;
mod timing;

pub use arrivals::{Amount, Arrivals, STREAMS_MAX, SequenceCounts, StreamReport};
pub use capture::{CAPTURE_BYTES_MAX, Capture, CaptureError, CapturedFrame};
pub use check::{Arrival, Check, Clocks, Findings, ReplayCheck, StampCheck, Verify};
pub use drive::{Drive, DriveError, Driven, Submit};
pub use echo::Echo;
pub use generate::{Generator, GeneratorError, GeneratorSpec, SUPER_PACKETS_MAX, Sizes};
pub use latency::{Latencies, Latency};
pub use pace::{Pace, Position};
pub use receive::{ReceiveError, Receiver, Until};
pub use record::Recorder;
pub use replay::{Replay, Split};
pub use stamp::{Stamp, stamp_of};
pub use timing::{Schedule, Timed};
pub use wharf_packet::flow_hash;

use wharf_mem::Meta;

/// One sender's frames, one after the other.
pub trait Source: Send {
    /// Frames still to come; [`u64::MAX`] for no end.
    fn remaining(&self) -> u64;

    /// Bytes of the longest frame.
    fn longest_bytes(&self) -> u32;

    /// Bytes of the next frame.
    fn len_bytes(&self) -> u32;

    /// Where in the traffic of all senders the frame `ahead` places after the next one lies.
    fn position(&self, ahead: u64) -> Position;

    /// Whether frames carry the time at which they were made: then somebody must read a clock.
    fn is_stamped(&self) -> bool;

    /// What every frame asks of the device besides, which is written to its row of the side table.
    fn requests(&self) -> Option<Meta> {
        None
    }

    /// Writes the next frame to `to`, which has [`Source::len_bytes`] bytes, and goes on to the one after it.
    fn write(&mut self, to: &mut [u8], now_ns: u64);
}
