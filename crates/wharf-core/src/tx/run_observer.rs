//! `RunObserver`: a hook at the beginning and the end of each run of a queue by a sender.

/// The figures of one run of a queue by a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservedRun {
    /// Frames that the device took in it, from all senders.
    pub packets: u64,
    /// Frames accepted from other senders.
    pub for_others: u64,
    /// Frames of its longest run, since the sender became the owner.
    pub longest_packets: u32,
}

/// An observer of the runs of a queue's senders, for comparisons of owner policies. Both calls come on the sender's
/// thread. `place` is the sender's place in the queue, counted from 0 in order of their making.
pub trait RunObserver: std::fmt::Debug + Send + Sync {
    /// The sender at `place` has become the owner.
    fn run_began(&self, place: u16);

    /// The sender at `place` left the queue, or offered it to others.
    fn run_ended(&self, place: u16, run: &ObservedRun);
}
