//! Packets lost, by reason: one account for summaries, pages and the forwarder.

use crate::queue::TxQueue;
use crate::rx::RxQueue;
use std::collections::BTreeMap;

/// Returns the packets lost at `receivers`, and before, in and behind `queues`, by reason. It asks the devices
/// that receive.
pub fn drops_by_reason(queues: &[TxQueue], receivers: &[RxQueue]) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    let mut add = |reason: &'static str, count| *drops.entry(reason.to_string()).or_default() += count;
    receivers.iter().for_each(|receiver| receiver.drops(&mut add));
    queues.iter().for_each(|queue| queue.drops(&mut add));
    drops
}
