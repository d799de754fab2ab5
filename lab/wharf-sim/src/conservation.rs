//! A check of packets on their way through a model: each leaves once, in order, and none is lost.

use crate::RunError;
use crate::nic::simple::Departed;

/// The packets inside a model, by buffer, and the numbers of those that have left, by stream.
#[derive(Debug, Default)]
pub struct ConservationChecker {
    /// Stream and number of the packet in each buffer.
    inside: Vec<Option<(u32, u32)>>,
    /// Number of the next packet that enters, by stream.
    next_in: Vec<u32>,
    /// Number of the next packet expected to leave, by stream.
    next_out: Vec<u32>,
    wrong: Option<String>,
    /// Packets overtaken by later ones of their stream, and those that failed.
    passed: u64,
    /// Packets whose last bit is sent within this time are measured.
    from_ns: u64,
    to_ns: u64,
    packets_within: u64,
    bytes_within: u64,
}

impl ConservationChecker {
    /// Creates a checker for `streams` streams and `frames` buffers that measures departures from `from_ns`
    /// until `to_ns`.
    pub fn new(streams: usize, frames: u32, (from_ns, to_ns): (u64, u64)) -> Self {
        Self {
            inside: vec![None; frames as usize],
            next_in: vec![0; streams],
            next_out: vec![0; streams],
            from_ns,
            to_ns,
            ..Self::default()
        }
    }

    /// Records that a packet of `stream` entered the model in buffer `index`.
    #[inline]
    pub fn enters(&mut self, stream: usize, index: u32) {
        self.inside[index as usize] = Some((stream as u32, self.next_in[stream]));
        self.next_in[stream] += 1;
    }

    /// Records that `frame` left. Returns its stream, or `None` where it breaks the order.
    #[inline]
    pub fn leaves(&mut self, frame: &Departed) -> Option<usize> {
        if (self.from_ns..self.to_ns).contains(&frame.at_ns) {
            self.packets_within += 1;
            self.bytes_within += u64::from(frame.len_bytes);
        }
        match self.inside.get_mut(frame.index as usize).and_then(Option::take) {
            Some((stream, number)) if self.next_out[stream as usize] <= number => {
                self.passed += u64::from(number - self.next_out[stream as usize]);
                self.next_out[stream as usize] = number + 1;
                Some(stream as usize)
            }
            other => {
                self.wrong = Some(format!("{frame:?} left as {other:?}"));
                None
            }
        }
    }

    /// Records an overflow of a qdisc unless `has_room`. The streams' windows are set so that it always has.
    #[inline]
    pub fn fits(&mut self, has_room: bool) {
        if !has_room {
            self.wrong =
                Some("a qdisc overflowed: qdisc_packets is less than the windows of its streams".into());
        }
    }

    /// Returns the packets and bytes that left within the measured time.
    pub fn measured(&self) -> (u64, u64) {
        (self.packets_within, self.bytes_within)
    }

    /// Returns the number of packets that entered.
    pub fn packets(&self) -> u64 {
        self.next_in.iter().map(|&count| u64::from(count)).sum()
    }

    /// Checks that all packets but `failed` left, in order.
    ///
    /// # Errors
    /// [`RunError::Order`].
    pub fn check(&self, failed: u64) -> Result<(), RunError> {
        let inside = |(&entered, &left): (&u32, &u32)| u64::from(entered - left);
        let missing = self.passed + self.next_in.iter().zip(&self.next_out).map(inside).sum::<u64>();
        let lost =
            || (missing != failed).then(|| format!("{missing} packets never left, and {failed} failed"));
        self.wrong.clone().or_else(lost).map_or(Ok(()), |what| Err(RunError::Order { what }))
    }
}
