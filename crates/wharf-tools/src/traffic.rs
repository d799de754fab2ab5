//! Traffic to send and to check: captures replayed, packets generated, receivers that compare every byte.
//!
//! One sender's frames come from a [`Source`]: a [`Replay`] of a [`Capture`], a [`StreamReplay`] of one that
//! is read as it is sent, or a [`Generator`]. [`Drive`] sends them at a [`Pace`], and [`Timed`] measures how
//! well it is kept. At the other end a [`Receiver`] gives each frame to a [`Check`]. [`ReplayCheck`],
//! [`StreamCheck`] and [`StampCheck`] know the next packet due from each sender; [`Arrivals`] takes any
//! traffic. A [`Recorder`] writes frames to a file.
//!
//! Several senders share a capture by flow ([`flow_hash`]), so that the packets of one flow stay in order.

mod arrivals;
mod capture;
mod check;
mod drive;
mod due;
mod echo;
mod generate;
mod headers;
mod latencies;
mod pace;
mod receive;
mod record;
mod replay;
mod stamp;
mod stream;
mod super_packet;
mod timeline;
mod timing;

pub use arrivals::{Amount, Arrivals, STREAMS_MAX, SequenceCounts, StreamReport};
pub use capture::{Capture, CaptureError, CapturedFrame, Reading, Survey, no_pace};
pub use check::{Arrival, Check, Clocks, Findings, ReplayCheck, StampCheck, StreamCheck, Verify};
pub use drive::{Drive, Driven, HostTime, Submit, Time};
pub use due::{PAUSE_NS, Pause, Pauses};
pub use echo::Echo;
pub use generate::{Generator, GeneratorError, GeneratorSpec, SUPER_PACKETS_MAX, Sizes};
pub use latencies::Latencies;
pub use pace::{Pace, Position};
pub use receive::{Receiver, Until, receiving};
pub use record::Recorder;
pub use replay::{Replay, Split};
pub use stamp::{Stamp, stamp_of};
pub use stream::{OnGap, StreamCounts, StreamReplay, StreamState};
pub use timeline::{GAP_NS_TOLD, TimeFacts};
pub use timing::{Schedule, Timed};
pub use wharf::metrics::Latency;
pub use wharf_devices::pcap::Skipped;
pub use wharf_packet::flow_hash;

use wharf_mem::Meta;

/// One sender's frames, one after the other.
pub trait Source: Send {
    /// Returns the number of frames still to come, [`u64::MAX`] for no end.
    fn remaining(&self) -> u64;

    /// Returns the bytes of the longest frame.
    fn longest_bytes(&self) -> u32;

    /// Returns the bytes of the next frame.
    fn len_bytes(&self) -> u32;

    /// Returns the position, in the traffic of all senders, of the frame `ahead` places after the next one.
    fn position(&self, ahead: u64) -> Position;

    /// True if frames carry the time at which they were made: the caller must then read a clock.
    fn is_stamped(&self) -> bool;

    /// True if the next frame is there. A source whose frames still have to come waits for one, and for some milliseconds at most.
    #[inline]
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Returns the time at which the first frame came, nanoseconds of CLOCK_MONOTONIC: no frame is due before. 0 if all are there.
    #[inline]
    fn began_ns(&self) -> u64 {
        0
    }

    /// Returns the offloads that each frame asks of the device, for its row of the side table.
    fn requests(&self) -> Option<Meta> {
        None
    }

    /// Writes the next frame to `to`, which has [`Source::len_bytes`] bytes, and goes on to the one after it.
    fn write(&mut self, to: &mut [u8], now_ns: u64);
}
