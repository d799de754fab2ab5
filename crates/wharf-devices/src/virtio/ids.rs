//! `Ids`: the free buffers, or descriptors, of a driver's ring; first in, first out. So a device that uses
//! buffers in order gets descriptors in order, as virtio 1.2, section 2.7.9, demands with IN_ORDER.

#[derive(Debug)]
pub(super) struct Ids {
    ring: Box<[u16]>,
    /// Position of the next one to be taken.
    head: u16,
    count: u16,
}

impl Ids {
    /// Makes a list of all of `size`, in order.
    pub(super) fn new(size: u16) -> Self {
        Self { ring: (0..size).collect(), head: 0, count: size }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u16 {
        self.count
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.count = self.count.checked_sub(1)?;
        let id = *self.ring.get(usize::from(self.head))?;
        self.head = if usize::from(self.head) + 1 == self.ring.len() { 0 } else { self.head + 1 };
        Some(id)
    }

    /// Takes back an id of [`Ids::take`].
    #[inline(always)]
    pub(super) fn give(&mut self, id: u16) {
        let at = usize::from(self.head) + usize::from(self.count);
        let at = if at >= self.ring.len() { at - self.ring.len() } else { at };
        if let Some(place) = self.ring.get_mut(at) {
            *place = id;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_round_the_end() {
        for size in [1u16, 3, 8] {
            let mut ids = Ids::new(size);
            for round in 0..50 {
                let count = 1 + round % size;
                let taken: Vec<u16> = (0..count).map(|_| ids.take().unwrap()).collect();
                assert!(taken.windows(2).all(|two| two[1] == (two[0] + 1) % size));
                taken.into_iter().for_each(|id| ids.give(id));
            }
            assert_eq!(ids.len(), size);
            (0..size).for_each(|_| assert!(ids.take().is_some()));
            assert!(ids.take().is_none() && ids.len() == 0);
        }
    }
}
