//! `Adapter`: what the queues of an adapter share.

use super::bus::Bus;
use super::family::Family;
use super::registers::{STATUS, STATUS_LU};
use crate::vfio::Bar;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wharf_mem::{Region, lock};
use wharf_sys::errno::ENODEV;

/// Time in which a copper link comes up after a reset, at most: IEEE 802.3, clause 28 and 40, in practice.
const LINK_WITHIN: Duration = Duration::from_secs(4);
const NAP: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Adapter<F, B> {
    pub(super) bus: B,
    state: Mutex<State>,
    /// True once the adapter has been reset as a queue ended.
    was_reset: AtomicBool,
    of: PhantomData<F>,
}

#[derive(Debug, Default)]
struct State {
    /// Memory that the adapter reaches, and its address there. Kept until the adapter is closed.
    regions: Vec<(Arc<Region>, u64)>,
    /// Queues that are attached.
    attached: u32,
}

impl<F: Family, B: Bus> Adapter<F, B> {
    /// Resets the adapter behind `bus`, sets it up for `queues` queues, and waits for its link for a while.
    ///
    /// # Errors
    /// `ENODEV` if no adapter answers.
    pub(super) fn open(bus: B, queues: u32) -> io::Result<Arc<Self>> {
        bus.set_bus_master(false);
        F::reset(&bus);
        F::start(&bus, queues);
        let until = Instant::now() + LINK_WITHIN;
        // Without link the adapter is opened all the same: frames fail, and the path says so.
        while bus.read(STATUS) & STATUS_LU == 0 && Instant::now() < until {
            bus.pause(NAP);
        }
        if bus.read(STATUS) == Bar::NOTHING {
            return Err(io::Error::from_raw_os_error(ENODEV));
        }
        Ok(Arc::new(Self {
            bus,
            state: Mutex::default(),
            was_reset: AtomicBool::new(false),
            of: PhantomData,
        }))
    }

    /// Lets the adapter read a pool's memory and, if it `is_writable`, write there. Returns its address there. All
    /// queues of an adapter have the same directions.
    ///
    /// # Errors
    /// Those of [`Bus::map`].
    pub(super) fn attach(&self, region: &Arc<Region>, is_writable: bool) -> io::Result<u64> {
        let mut state = self.lock();
        let known = state.regions.iter().find(|(known, _)| Arc::ptr_eq(known, region)).map(|(_, at)| *at);
        let at = match known {
            Some(at) => at,
            None => {
                let at = self.bus.map(region.mapping(), is_writable)?;
                state.regions.push((region.clone(), at));
                at
            }
        };
        state.attached += 1;
        self.bus.set_bus_master(true);
        Ok(at)
    }

    /// A queue has ended, or does not end: then, as with the last one, the adapter is reset.
    pub(super) fn detach(&self, has_stopped: bool) {
        let mut state = self.lock();
        state.attached = state.attached.saturating_sub(1);
        if state.attached == 0 || !has_stopped {
            F::reset(&self.bus);
            self.was_reset.store(true, Relaxed);
        }
        if state.attached == 0 {
            self.bus.set_bus_master(false);
        }
    }

    /// True if the adapter was reset: its queues are at an end.
    pub(super) fn was_reset(&self) -> bool {
        self.was_reset.load(Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }
}
