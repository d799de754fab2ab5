//! Sees every packet enter and leave, and says whether each stream's came out in order, once, and all of them.

use crate::hardware::Departed;
use crate::kernel::Fault;

/// What packets went in, by buffer, and what has come out.
#[derive(Debug)]
pub(crate) struct Witness {
    /// Stream and number of the packet in each buffer.
    inside: Vec<Option<(u32, u32)>>,
    /// By stream: the number that the next one in gets, and that the next one out must have.
    next_in: Vec<u32>,
    next_out: Vec<u32>,
    wrong: Option<String>,
    /// Packets that others have left before.
    passed: u64,
    /// Counted while their last bit was on the wire within this time.
    from_ns: u64,
    to_ns: u64,
    packets_within: u64,
    bytes_within: u64,
}

impl Witness {
    pub(crate) fn new(streams: usize, frames: u32, (from_ns, to_ns): (u64, u64)) -> Self {
        Self {
            inside: vec![None; frames as usize],
            next_in: vec![0; streams],
            next_out: vec![0; streams],
            wrong: None,
            passed: 0,
            from_ns,
            to_ns,
            packets_within: 0,
            bytes_within: 0,
        }
    }

    /// A packet of `stream` enters the path in buffer `index`.
    #[inline]
    pub(crate) fn enters(&mut self, stream: usize, index: u32) {
        self.inside[index as usize] = Some((stream as u32, self.next_in[stream]));
        self.next_in[stream] += 1;
    }

    /// One leaves; of which stream.
    #[inline]
    pub(crate) fn leaves(&mut self, frame: &Departed) -> Option<usize> {
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

    /// The qdisc has room for the packet that is put in, as the streams' windows are to see to.
    #[inline]
    pub(crate) fn fits(&mut self, has_room: bool) {
        if !has_room {
            self.wrong =
                Some("a qdisc overflowed: qdisc_packets is less than the windows of its streams".into());
        }
    }

    /// Packets and bytes that left within the time of measuring.
    pub(crate) fn measured(&self) -> (u64, u64) {
        (self.packets_within, self.bytes_within)
    }

    /// All that entered.
    pub(crate) fn packets(&self) -> u64 {
        self.next_in.iter().map(|&count| u64::from(count)).sum()
    }

    /// Whether all came out, in order.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.check_but(0)
    }

    /// The same for all but so many, which failed on the way.
    pub(crate) fn check_but(&self, failed: u64) -> Result<(), Fault> {
        let inside = |(&entered, &left): (&u32, &u32)| u64::from(entered - left);
        let missing = self.passed + self.next_in.iter().zip(&self.next_out).map(inside).sum::<u64>();
        let lost =
            || (missing != failed).then(|| format!("{missing} packets never left, and {failed} failed"));
        self.wrong.clone().or_else(lost).map_or(Ok(()), |what| Err(Fault::Order { what }))
    }
}
