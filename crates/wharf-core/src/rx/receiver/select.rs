//! `select`: the first packets of several receivers.

use super::{Receiver, RecvError, Way};
use crate::host::Park;
use crate::pool::Burst;
use crate::wait::Wait;
use std::sync::Arc;

/// Wait between two polls of several receivers of which one polls its device in its own calls.
const NAP_NS: u64 = 100_000;

/// Receives from whichever of `receivers` has packets, as [`Receiver::recv`] does. Returns its number and
/// the number of packets: no packet if the time is over, or `into` has no room. Each receiver that has
/// packets has its turn.
///
/// Their packets are of one pool, that of `into`. Receivers that a poller's thread serves wake the caller
/// at once. Others are polled in turn, every 100 µs. An error names its device, and the next call goes on
/// with the others.
///
/// # Errors
/// [`RecvError::Closed`] once no packet will come from any of them, and the other errors of
/// [`Receiver::recv`].
pub fn select(
    receivers: &mut [Receiver], into: &mut Burst, wait: impl Into<Wait>,
) -> Result<(usize, usize), RecvError> {
    let (mut left_ns, mut park, mut end_ns) = (wait.into().left_ns(), None, 0);
    loop {
        if let Some(selected) = poll_each(receivers, into)? {
            return Ok(selected);
        }
        if left_ns == 0 || into.batch_mut().room() == 0 {
            return Ok((0, 0));
        }
        // Each is polled once more after it knows whom to wake.
        let Some(park) = park.take() else {
            park = Some(announce_to_all(receivers));
            end_ns = receivers[0].now_ns().saturating_add(left_ns);
            continue;
        };
        let is_served = |receiver: &Receiver| matches!(receiver.way, Way::Poller { .. });
        let nap_ns = if receivers.iter().all(is_served) { left_ns } else { NAP_NS.min(left_ns) };
        match park {
            Some(park) => park.park(nap_ns),
            None => receivers[0].wait(nap_ns),
        }
        left_ns = end_ns.saturating_sub(receivers[0].now_ns());
    }
}

/// Has this thread woken by each receiver that a poller's thread serves. Returns how it waits; `None` if
/// there is none.
fn announce_to_all(receivers: &[Receiver]) -> Option<Arc<dyn Park>> {
    let park = receivers.iter().find_map(|receiver| match &receiver.way {
        Way::Poller { park, .. } => Some(park.clone()),
        Way::Caller(_) => None,
    })?;
    let wake = park.waker();
    receivers.iter().for_each(|receiver| receiver.announce(wake.clone()));
    Some(park)
}

/// Polls each once, from the one after that which was served last. Returns its number and the packets.
fn poll_each(receivers: &mut [Receiver], into: &mut Burst) -> Result<Option<(usize, usize)>, RecvError> {
    let served = |receiver: &Receiver| receiver.turn;
    let last = (0..receivers.len()).max_by_key(|&at| served(&receivers[at])).unwrap_or(0);
    let (mut ended, count, turn) = (0, receivers.len(), receivers.get(last).map_or(0, served));
    for at in (last + 1..count).chain(0..count.min(last + 1)) {
        match receivers[at].recv_now(into) {
            Ok(0) => {}
            Ok(packets) => {
                receivers[at].turn = turn + 1;
                return Ok(Some((at, packets)));
            }
            Err(RecvError::Closed) => ended += 1,
            Err(error) => {
                receivers[at].turn = turn + 1;
                return Err(error);
            }
        }
    }
    if ended == count { Err(RecvError::Closed) } else { Ok(None) }
}
