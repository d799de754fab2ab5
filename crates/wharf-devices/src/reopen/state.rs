//! `State`: what the sides of one specification share, under a lock.

use super::backoff::Backoff;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wharf_core::device::AnyDevice;
use wharf_mem::Region;

/// See the module.
#[derive(Default)]
pub(super) struct State {
    pub(super) slots: Vec<Slot>,
    /// Since when the device is closed, or to be closed.
    pub(super) since: Option<Instant>,
    pub(super) backoff: Backoff,
    /// A reset was asked for since.
    pub(super) is_reset: bool,
    pub(super) is_closed: bool,
    /// The mode of the device that was opened last.
    pub(super) mode: Option<&'static str>,
    /// The next device is known to be there, and not handed out.
    pub(super) is_told: bool,
    /// Time between the last attempt to open the device and the next.
    pub(super) pause: Duration,
    /// The thread opens the device, or has opened it and not handed it out.
    pub(super) is_opening: bool,
}

/// The place of one side.
#[derive(Default)]
pub(super) struct Slot {
    /// Memory that the device is attached to.
    pub(super) region: Option<Arc<Region>>,
    /// The side has closed its device.
    pub(super) is_retired: bool,
    /// The side is closed, and wants no device any more.
    pub(super) is_gone: bool,
    /// The new device, and the value of [`Reopener::asked`] that it is newer than.
    pub(super) next: Option<(u64, AnyDevice)>,
}

impl State {
    /// Asks the sides to close their device. Returns the devices that they have not taken yet.
    pub(super) fn ask(&mut self, asked: &AtomicU64) -> Vec<(u64, AnyDevice)> {
        self.since = Some(Instant::now());
        asked.fetch_add(1, SeqCst);
        let untaken = self.slots.iter_mut().filter_map(|slot| {
            let next = slot.next.take()?;
            slot.is_retired = true;
            Some(next)
        });
        untaken.collect()
    }

    /// True once each side has closed its device. One that has no memory yet holds nothing.
    pub(super) fn is_retired(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_retired || slot.is_gone || slot.region.is_none())
    }

    pub(super) fn attached(&self) -> usize {
        self.slots.iter().filter(|slot| slot.region.is_some()).count()
    }
}
