//! A ring that a driver fills and a NIC empties, and the NIC's position in it.

use super::host_memory::HostMemory;

/// A ring of descriptors or blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Units; a power of two.
    pub units: u32,
}

impl Ring {
    /// Allocates 2^`log_units` units of `unit_bytes`.
    pub fn allocate(log_units: u32, unit_bytes: usize, memory: &mut HostMemory) -> Self {
        let address = memory.allocate(unit_bytes << log_units);
        Self { address, unit_bytes: unit_bytes as u32, units: 1 << log_units }
    }

    /// Returns the address of the unit of a free-running index.
    #[inline]
    pub fn at(&self, index: u32) -> u64 {
        self.address + u64::from(index & (self.units - 1)) * u64::from(self.unit_bytes)
    }

    /// Returns the number of units from `index` to the ring's end.
    #[inline]
    pub fn to_edge(&self, index: u32) -> u32 {
        self.units - (index & (self.units - 1))
    }
}

/// A fault in the driver's writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue {queue}: {what}")]
pub struct NicFault {
    /// The queue, which is stopped.
    pub queue: usize,
    /// The fault.
    pub what: String,
}

/// A ring from the NIC's side. Indices run free: `used` ≤ `fetched` ≤ `asked` ≤ `tail` ≤ `used` + units.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) ring: Ring,
    tail: u32,
    asked: u32,
    fetched: u32,
    used: u32,
    /// A write of the driver made no sense: the queue is stopped.
    pub(super) stopped: bool,
}

impl Intake {
    pub(super) fn new(ring: Ring) -> Self {
        Self { ring, tail: 0, asked: 0, fetched: 0, used: 0, stopped: false }
    }

    /// Returns the tail that the NIC knows of.
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns the next unit to use.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Moves the tail. Returns an error if more units would be new than the ring has free. A tail that goes
    /// back counts as one far ahead.
    pub(super) fn moves_to(&mut self, tail: u32) -> Result<(), String> {
        let (new, held) = (tail.wrapping_sub(self.tail), self.left());
        let units = self.ring.units;
        if u64::from(new) + u64::from(held) > u64::from(units) {
            return Err(format!(
                "a tail of {tail}, behind {} or beyond the ring of {units}, of which {held} are not used yet",
                self.tail
            ));
        }
        self.tail = tail;
        Ok(())
    }

    /// Returns the number of units known and not used.
    pub(super) fn left(&self) -> u32 {
        self.tail.wrapping_sub(self.used)
    }

    /// Returns the number of units known and not requested.
    pub(super) fn unasked(&self) -> u32 {
        self.tail.wrapping_sub(self.asked)
    }

    /// Returns the number of units requested and not used.
    pub(super) fn ahead(&self) -> u32 {
        self.asked.wrapping_sub(self.used)
    }

    /// Returns the number of units that can be read at once, up to `most`.
    pub(super) fn readable(&self, most: u32) -> u32 {
        self.unasked().min(most).min(self.ring.to_edge(self.asked))
    }

    /// Requests `units`. Returns the bytes to read.
    pub(super) fn ask(&mut self, units: u32) -> u64 {
        self.asked = self.asked.wrapping_add(units);
        u64::from(units * self.ring.unit_bytes)
    }

    /// Notes that `units` arrived.
    pub(super) fn come(&mut self, units: u32) {
        self.fetched = self.fetched.wrapping_add(units);
    }

    /// Returns the number of units arrived and not used, in one piece.
    pub(super) fn here(&self) -> u32 {
        self.fetched.wrapping_sub(self.used).min(self.ring.to_edge(self.used))
    }

    /// True if all units that the NIC knows of have arrived.
    pub(super) fn is_all_here(&self) -> bool {
        self.fetched == self.tail
    }

    /// Uses `units`.
    pub(super) fn take(&mut self, units: u32) {
        self.used = self.used.wrapping_add(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_go_forward_within_the_room() {
        let ring = Ring { address: 0x1000, unit_bytes: 16, units: 8 };
        for start in [0, u32::MAX - 3] {
            let mut intake =
                Intake { tail: start, asked: start, fetched: start, used: start, ..Intake::new(ring) };
            let at = |ahead: u32| start.wrapping_add(ahead);
            assert!(intake.moves_to(at(9)).is_err() && intake.moves_to(at(u32::MAX)).is_err());
            intake.moves_to(at(6)).unwrap();
            assert_eq!(intake.ask(intake.readable(4)), 64);
            intake.come(4);
            intake.take(2);
            // Back, also to units not requested yet; further than the used units allow.
            for wrong in [5, 4, 2, 0, 11] {
                let what = intake.moves_to(at(wrong)).unwrap_err();
                assert!(what.contains("beyond the ring of 8, of which 4 are not used yet"), "{what}");
            }
            intake.moves_to(at(10)).unwrap();
            assert_eq!((intake.unasked(), intake.ahead(), intake.here()), (6, 2, 2));
        }
    }
}
