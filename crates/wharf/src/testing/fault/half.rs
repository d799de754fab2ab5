//! Receptions cut in the middle.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;

/// Most frames of the first part of a reception that is cut.
const PART_MAX: u64 = 8;

/// The receptions of which only a first part comes at once. The device says nothing of the rest: the next call finds it.
pub(super) struct HalfReceptions {
    roll: Roll,
    /// The frames of the first part, once it is known that the next reception is cut.
    part: Option<usize>,
    /// A reception by this call counts: it might have two frames.
    can_be_cut: bool,
    /// The last reception was cut.
    hides_rest: bool,
}

impl HalfReceptions {
    pub(super) fn new(roll: Roll) -> Self {
        Self { roll, part: None, can_be_cut: false, hides_rest: false }
    }

    /// True if the device has frames that it says nothing of.
    pub(super) fn hides_rest(&self) -> bool {
        self.hides_rest
    }

    /// Returns the most frames that the next reception, of up to `budget`, may have.
    pub(super) fn most(&mut self, budget: usize) -> usize {
        self.hides_rest = false;
        self.can_be_cut = budget >= 2 && self.roll.is_on();
        // A call that finds nothing is no reception: it does not use up the fate of one.
        if !self.can_be_cut || self.roll.clear_of(1) == 1 {
            return budget;
        }
        let roll = &mut self.roll;
        let part = *self.part.get_or_insert_with(|| roll.up_to(PART_MAX) as usize);
        part.min(budget - 1)
    }

    /// Notes a reception of `received` frames, at least one, of the `most` that it might have.
    pub(super) fn note(&mut self, received: usize, most: usize, counts: &FaultCounts) {
        if !self.can_be_cut || !self.roll.happens() {
            return;
        }
        self.part = None;
        if received == most {
            self.hides_rest = true;
            counts.add(Kind::Half, 1);
        }
    }
}
