//! `Vring`: one virtqueue: the state announced by messages, and, once that is complete, the running ring.

use crate::virtio::packed::PackedDevice;
use crate::virtio::split::SplitDevice;
use crate::virtio::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, feature};
use crate::vnet::VNET_HEADER_BYTES;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_sys::event::EventFd;
use wharf_sys::shared::View;

/// Agreed features, as far as they change frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed(pub(super) u64);

impl Agreed {
    pub(super) fn has(self, feature: u64) -> bool {
        self.0 & feature != 0
    }

    /// Returns the bytes before each frame (virtio 1.2, sections 5.1.6 and 5.1.6.1).
    pub(super) fn header_bytes(self) -> usize {
        let long = self.has(feature::VERSION_1 | feature::MRG_RXBUF);
        VNET_HEADER_BYTES + if long { size_of::<u16>() } else { 0 }
    }

    /// True if the header before an arriving frame may carry requests; else it is ignored (virtio 1.2,
    /// section 5.1.6.2).
    pub(super) fn may_ask(self) -> bool {
        self.has(feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_USO)
    }

    /// Returns true if the driver takes super-packets of this kind.
    pub(super) fn takes(self, gso_kind: u8) -> bool {
        self.has(feature::GUEST_CSUM) && feature::driver_takes(self.0, gso_kind)
    }

    pub(super) fn layout(self) -> Layout {
        if self.has(feature::PACKED) { Layout::Packed } else { Layout::Split }
    }
}

/// A ring of either layout.
#[derive(Debug)]
pub(super) enum Ring {
    Split(SplitDevice),
    Packed(PackedDevice),
}

/// Evaluates `$work` with `$ring` as its type: a loop of its own for either layout.
macro_rules! with_ring {
    ($either:expr, $ring:ident => $work:expr) => {
        match $either {
            $crate::vhost_user::vring::Ring::Split($ring) => $work,
            $crate::vhost_user::vring::Ring::Packed($ring) => $work,
        }
    };
}
pub(super) use with_ring;

/// Buffers popped before the first of them is read: their lines come from the driver's processor at the same
/// time.
const AHEAD: usize = 32;

/// Time for which the frames in a virtqueue that was switched off are kept.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Descriptors of long chains after which a turn at a virtqueue ends, so that the thread serves others: 64 chains, each longer
/// than any driver makes.
pub(super) const DESCRIPTORS_AT_A_TIME: u32 = 4096;

/// A running ring, and the memory of its chains.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) ring: Ring,
    pub(super) memory: Arc<Memory>,
    /// The areas that are written, by user address and bytes, if that is noted.
    logged: Vec<(u64, usize)>,
    /// The table of what is in flight.
    table: Option<View>,
    pub(super) agreed: Agreed,
    /// Chains popped before the first of them is used.
    pub(super) chains: Box<[Chain]>,
    /// The next used buffers are notified whatever the driver asks for: the former device may have notified
    /// nobody of the last ones.
    owes_call: bool,
}

impl Running {
    /// Calls `change` with the ring, and notes that it was written.
    pub(super) fn write<T>(&mut self, change: impl FnOnce(&mut Ring) -> T) -> T {
        let changed = change(&mut self.ring);
        self.note_written();
        changed
    }

    /// Notifies the driver of what was published, by `call`, if it asks for that. Returns true if it did.
    #[inline]
    pub(super) fn tell(&mut self, call: Option<&EventFd>) -> bool {
        let asks = with_ring!(&mut self.ring, ring => ring.needs_notification());
        let Some(call) = call.filter(|_| asks || self.owes_call) else { return false };
        self.owes_call = false;
        call.signal();
        true
    }

    /// Returns true if the driver has taken away some of what it shares.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.memory.is_broken() || self.table.as_ref().is_some_and(|table| table.area().is_broken())
    }

    /// Notes that the ring was written, if that is wanted.
    #[inline]
    pub(super) fn note_written(&self) {
        self.logged.iter().for_each(|&(user, len_bytes)| self.memory.note_user(user, len_bytes));
    }
}

/// One virtqueue.
#[derive(Debug, Default)]
pub(super) struct Vring {
    /// SET_VRING_NUM.
    pub(super) size: u32,
    /// SET_VRING_ADDR: descriptors, available, used, by user addresses.
    pub(super) addresses: Option<[u64; 3]>,
    /// SET_VRING_BASE.
    pub(super) base: u32,
    /// SET_VRING_KICK: `Some(None)` if the driver will not notify.
    pub(super) kick: Option<Option<EventFd>>,
    /// SET_VRING_CALL.
    pub(super) call: Option<EventFd>,
    /// SET_VRING_ERR.
    pub(super) error: Option<EventFd>,
    /// SET_VRING_ENABLE.
    pub(super) is_enabled: bool,
    /// When it was switched off.
    off_since: Option<Instant>,
    /// It was enabled since the connection was made, or since it was last set up. Until then what its driver
    /// has in it waits.
    pub(super) was_enabled: bool,
    /// SET_INFLIGHT_FD: the virtqueue's table.
    pub(super) inflight: Option<View>,
    /// Buffers given back at the start: another device had left them in flight.
    pub(super) given_back: u64,
    /// Buffers for frames to the driver that were given back at the start: see [`PackedDevice::close_hole`].
    pub(super) holes: u64,
    /// SET_VRING_ENABLE of the virtqueue for frames from the driver, if this is the other one of its pair.
    /// Until then frames that arrive are discarded, also an answer to one that this virtqueue sent.
    pub(super) is_answer_enabled: bool,
    /// True if it has run since the connection was made.
    has_run: bool,
    running: Option<Running>,
}

/// Reason that a ring does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoStart {
    #[error(transparent)]
    Ring(#[from] RingError),
    #[error(
        "what was under way in a packed ring when it was left cannot be told from it: bind its driver anew, in the guest"
    )]
    Unknown,
}

impl Vring {
    /// Returns the place of its ring, if all is known that it needs.
    pub(super) fn place(&self, memory: &Memory, agreed: Agreed) -> Result<Option<Place>, RingError> {
        let (Some([descriptors, driver, device]), Some(_), 1..) = (self.addresses, &self.kick, self.size)
        else {
            return Ok(None);
        };
        let place = Place::find(agreed.layout(), self.size, memory, descriptors, driver, device)?;
        Ok(Some(match &self.inflight {
            Some(table) => place.with_inflight(table)?,
            None => place,
        }))
    }

    /// Returns the areas that the device writes, if that is noted: the used ring, or all of a packed ring.
    fn written(&self, place: &Place, memory: &Memory) -> Vec<(u64, usize)> {
        let users = self.addresses.filter(|_| memory.is_logged()).into_iter().flatten();
        let all = users.zip(place.areas().map(View::len_bytes));
        all.skip(if place.layout() == Layout::Split { 2 } else { 0 }).collect()
    }

    /// Enables or disables it.
    pub(super) fn enable(&mut self, is_enabled: bool) {
        if self.is_enabled && !is_enabled {
            self.off_since = Some(Instant::now());
        }
        self.is_enabled = is_enabled;
        self.was_enabled |= is_enabled;
    }

    /// Returns how long what is in it is still kept, if that is so although it is switched off: it may be a
    /// pause of the machine.
    pub(super) fn keeps_for(&self) -> Option<Duration> {
        let left = KEPT_FOR.checked_sub(self.off_since.filter(|_| !self.is_enabled)?.elapsed())?;
        (left > Duration::ZERO).then_some(left)
    }

    /// Starts it, if all is known that it needs. Returns true if it runs now. Its driver is asked for
    /// notifications if it `is_armed`, and else to send none.
    pub(super) fn start(
        &mut self, memory: &Arc<Memory>, agreed: Agreed, is_armed: bool,
    ) -> Result<bool, NoStart> {
        if self.running.is_some() {
            return Ok(true);
        }
        let Some(place) = self.place(memory, agreed)? else { return Ok(false) };
        let (options, logged) = (Options::of(agreed.0), self.written(&place, memory));
        let mut ring = match agreed.layout() {
            Layout::Split => {
                // Buffers are used in order and at once, so the used index is the whole state, whichever
                // device came before.
                let base = SplitDevice::used_index(&place);
                Ring::Split(SplitDevice::new(place, options, base.into())?)
            }
            Layout::Packed => {
                let device = match self.has_run {
                    true => Some((PackedDevice::new(place, options, self.base)?, 0)),
                    false => PackedDevice::resumed(place, self.base, options)?,
                };
                let (mut device, given_back) = device.ok_or(NoStart::Unknown)?;
                self.given_back += given_back as u64;
                // The first turn reports a buffer that breaks the rules.
                if device.close_hole(memory).unwrap_or(false) {
                    self.holes += 1;
                    self.call.iter().for_each(EventFd::signal);
                }
                Ring::Packed(device)
            }
        };
        // The former device may have left either setting: QEMU suppresses kicks while it drops packets.
        with_ring!(&mut ring, ring => match is_armed {
            true => _ = ring.enable_notification(),
            false => ring.disable_notification(),
        });
        self.has_run = true;
        self.running = Some(Running {
            ring,
            memory: memory.clone(),
            logged,
            table: self.inflight.clone(),
            agreed,
            // One is for a buffer that is popped alone.
            chains: (0..=AHEAD).map(|_| Chain::new()).collect(),
            owes_call: true,
        });
        Ok(true)
    }

    /// Stops it until it is started again. Returns its position.
    pub(super) fn stop(&mut self) -> u32 {
        if let Some(Running { ring, memory, logged, .. }) = self.running.take() {
            self.base = with_ring!(&ring, ring => ring.next_avail());
            drop(ring);
            logged.into_iter().for_each(|(user, len_bytes)| memory.note_user(user, len_bytes));
        }
        self.base
    }

    /// Ends it until the driver sets it up anew: it broke the rules.
    pub(super) fn fail(&mut self) {
        self.stop();
        self.addresses = None;
        if let Some(error) = &self.error {
            error.signal();
        }
    }

    /// Returns the running ring, if it runs.
    #[inline]
    pub(super) fn running(&mut self) -> Option<&mut Running> {
        self.running.as_mut()
    }

    /// Returns the running ring, unless its frames wait until it is enabled.
    #[inline]
    pub(super) fn serving(&mut self) -> Option<(&mut Running, Option<&EventFd>)> {
        let running = self.running.as_mut().filter(|_| self.was_enabled);
        running.map(|running| (running, self.call.as_ref()))
    }

    /// True if it runs, is enabled, and stands beyond its beginning.
    pub(super) fn has_gone_before(&self) -> bool {
        // Without the wrap counters of a packed ring.
        const INDICES: u32 = 0x7fff_7fff;
        let running = self.running.as_ref().filter(|_| self.is_enabled);
        running.is_some_and(|running| with_ring!(&running.ring, ring => ring.next_avail()) & INDICES != 0)
    }

    /// True if it is to be polled: its driver will not notify.
    pub(super) fn is_mute(&self) -> bool {
        matches!(self.kick, Some(None)) && self.running.is_some() && self.is_enabled
    }

    /// Returns the running ring, if frames may go to the driver.
    #[inline]
    pub(super) fn open(&mut self) -> Option<(&mut Running, Option<&EventFd>)> {
        if !(self.is_enabled && self.is_answer_enabled) {
            return None;
        }
        self.running.as_mut().map(|running| (running, self.call.as_ref()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_enabled && self.is_answer_enabled && self.running.is_some()
    }
}
