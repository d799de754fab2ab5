//! What whoever owns a queue does at both ends of a run: sees to what others have left, and picks whom to call when it leaves.

use super::{PollerState, QueueState, Shared};
use std::sync::atomic::Ordering::Relaxed;
use wharf_mem::word::{CONTROL, OFFERED, READY, WAIT};

/// Looks at an offer, at most, before its maker takes it back. Each one that nobody took halves it; one that somebody
/// took restores it: where there is nobody to come, waiting for them would be for nothing.
pub(crate) const LOOKS_MAX: u32 = 32;

/// Whom to call when the queue has been left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wakeups {
    /// The poller: frames stay behind that somebody must come back for.
    pub(crate) poller: bool,
    /// Senders that were served.
    pub(crate) served: bool,
}

/// Who leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    /// Anybody.
    Sender,
    /// A poller, who comes back by itself where there is need; perhaps not soon.
    Poller {
        /// Only later, or when the device tells.
        away: bool,
    },
}

/// Sees to the notices in `bits`: messages first, since they may bring the lanes that the others are about.
#[inline]
pub(crate) fn handle_pending(shared: &Shared, state: &mut QueueState, bits: u64) {
    if bits & (CONTROL | WAIT | OFFERED) != 0 {
        handle_rare(shared, state, bits);
    }
    state.lanes.announce(bits & READY);
    if state.shut {
        shared.drain_unsent(state);
    }
}

#[cold]
fn handle_rare(shared: &Shared, state: &mut QueueState, bits: u64) {
    if bits & CONTROL != 0 {
        shared.apply_control(state);
    }
    state.waiting |= bits & WAIT != 0;
    if bits & OFFERED != 0 {
        state.offer_looks = LOOKS_MAX;
    }
}

/// Before leaving: picks who can go on, publishes which bands are full; whom to call once the queue is left. Where nothing has
/// happened since it was last asked, it need not `serve`.
#[inline]
pub(crate) fn before_release(
    shared: &Shared, state: &mut QueueState, leaving: OwnerKind, serve: bool,
) -> Wakeups {
    let mut full = state.settle_qdisc();
    let mut wakes = false;
    if state.waiting {
        if serve {
            let served = shared.waiters.serve(state.engine.space(), &mut state.lanes, &shared.pool);
            (state.waiting, wakes) = (served.waiting, served.wakes);
            state.waited_bands = served.full;
        }
        full |= state.waited_bands;
    }
    if shared.full_bands.load(Relaxed) != full {
        shared.full_bands.store(full, Relaxed);
    }
    let pending = state.is_pending() || state.waiting;
    let poller = match (state.poller, leaving) {
        (PollerState::None, _) => false,
        (_, OwnerKind::Poller { away }) => {
            state.poller = match (pending, away) {
                (false, _) => PollerState::Asleep,
                (true, false) => PollerState::Awake,
                (true, true) => PollerState::Away,
            };
            false
        }
        // The device tells of what it holds, and of nothing else.
        (PollerState::Away, OwnerKind::Sender) if pending && state.engine.in_device() == 0 => {
            state.poller = PollerState::Awake;
            true
        }
        (PollerState::Asleep, OwnerKind::Sender) if pending => {
            state.poller = PollerState::Awake;
            true
        }
        _ => false,
    };
    Wakeups { poller, served: wakes }
}
