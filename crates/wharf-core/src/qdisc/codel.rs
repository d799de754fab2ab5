//! `CoDel`: controlled delay of one queue (RFC 8289, section 5; `include/net/codel_impl.h`).
//!
//! It looks at each packet as it leaves. If all have waited for longer than the target for a whole interval,
//! it drops one, and the next ones after ever shorter times: the interval over the square root of their
//! number, in `f64`, whose root and quotient are exactly rounded on every machine. With ECN it marks in place
//! of dropping, and a mark ends the call as in the kernel.

use super::slab::{FrameList, Slab, Timed};
use super::{QdiscContext, WhenFull};
use std::time::Duration;

/// The reason of frames that `CoDel` drops.
pub const CODEL: &str = "codel";

/// A discipline that holds no more bytes than this, an Ethernet frame's most, drops and marks nothing
/// (`maxpacket_`). The packets of all queues count, as in the kernel's `fq_codel`: one packet in each of many queues
/// can be more than a slow link sends within the target.
const MAX_PACKET_BYTES: u64 = 1514;
/// Intervals after which a device that takes nothing stands: its other side is stopped.
const STOOD_INTERVALS: u64 = 10;
/// The drop rate of a last time counts for so many intervals.
const MEMORY_INTERVALS: u64 = 16;

/// The parameters of `CoDel`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoDelOptions {
    pub(super) target_ns: u64,
    pub(super) interval_ns: u64,
    pub(super) ecn: bool,
}

/// Counters, for all queues of a discipline.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CoDelCounts {
    pub(super) marked: u64,
    pub(super) drops: u64,
    /// The longest time that a packet which left had waited.
    pub(super) delay_ns_max: u64,
}

/// The state for one queue, by the names of the RFC. A time of 0 is none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CoDel {
    first_above_ns: u64,
    drop_next_ns: u64,
    pub(super) count: u32,
    last_count: u32,
    is_dropping: bool,
}

/// Times at which a device took nothing for long. What came before is too old when it goes on, and `CoDel`
/// would let most of that pass: it drops no faster than flows can react.
#[derive(Debug)]
pub(super) struct Standstill {
    /// The time after which a device stands; for ever if senders wait for room, and lose nothing by this.
    stood_ns: u64,
    /// When packets were last asked for.
    asked_ns: u64,
    /// Packets that came before are dropped as their turn comes.
    pub(super) fresh_ns: u64,
}

impl Standstill {
    pub(super) fn new(interval: Duration, when_full: WhenFull) -> Self {
        let stood_ns = match when_full {
            WhenFull::Wait => u64::MAX,
            // Bounded by seconds.
            WhenFull::DropHead => STOOD_INTERVALS * interval.as_nanos() as u64,
        };
        Self { stood_ns, asked_ns: 0, fresh_ns: 0 }
    }

    /// Notes that packets are asked for, of which there are some. A rate that has held them until now is no
    /// device that stands.
    #[inline]
    pub(super) fn note(&mut self, cx: &mut QdiscContext<'_>) {
        let now_ns = cx.now_ns();
        let before_ns = std::mem::replace(&mut self.asked_ns, now_ns).max(cx.held_until_ns());
        if now_ns.saturating_sub(before_ns) >= self.stood_ns {
            self.fresh_ns = now_ns.saturating_sub(self.stood_ns);
        }
    }
}

/// One queue and the call that it is in.
pub(super) struct CoDelCall<'a, 'c> {
    pub(super) cx: &'a mut QdiscContext<'c>,
    pub(super) options: CoDelOptions,
    pub(super) counts: &'a mut CoDelCounts,
    pub(super) slab: &'a mut Slab,
    pub(super) list: &'a mut FrameList,
    /// Packets that came before this time are dropped.
    pub(super) fresh_ns: u64,
}

impl CoDel {
    /// Notes that its queue ran empty: what waited before says nothing of what comes.
    pub(super) fn ran_empty(&mut self) {
        (self.first_above_ns, self.is_dropping) = (0, false);
    }

    /// `deque`: the next packet of the queue that is not dropped.
    pub(super) fn dequeue(&mut self, call: &mut CoDelCall<'_, '_>) -> Option<Timed> {
        let now_ns = call.cx.now_ns();
        let (mut packet, mut ok_to_drop) = self.do_dequeue(call, now_ns);
        if self.is_dropping {
            self.is_dropping = ok_to_drop;
            while self.is_dropping && now_ns >= self.drop_next_ns {
                self.count = self.count.saturating_add(1);
                let is_marked = call.mark_or_drop(&mut packet);
                if !is_marked {
                    (packet, ok_to_drop) = self.do_dequeue(call, now_ns);
                }
                self.is_dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next_ns = self.control_law(self.drop_next_ns, call.options.interval_ns);
                }
                if is_marked {
                    break;
                }
            }
        } else if ok_to_drop {
            if !call.mark_or_drop(&mut packet) {
                (packet, _) = self.do_dequeue(call, now_ns);
            }
            self.start_dropping(now_ns, call.options.interval_ns);
        }
        let packet = packet?;
        call.counts.delay_ns_max = call.counts.delay_ns_max.max(now_ns.saturating_sub(packet.enqueued_ns));
        Some(packet)
    }

    /// `dodequeue`: the first packet, and true if it may be dropped.
    fn do_dequeue(&mut self, call: &mut CoDelCall<'_, '_>, now_ns: u64) -> (Option<Timed>, bool) {
        let mut packet = call.slab.pop(call.list);
        while packet.as_ref().is_some_and(|packet| packet.enqueued_ns < call.fresh_ns) {
            call.drop(&mut packet);
            packet = call.slab.pop(call.list);
        }
        let CoDelOptions { target_ns, interval_ns, .. } = call.options;
        let is_above = packet.as_ref().is_some_and(|packet| {
            now_ns.saturating_sub(packet.enqueued_ns) >= target_ns && call.slab.bytes() > MAX_PACKET_BYTES
        });
        let ok_to_drop = is_above && self.first_above_ns != 0 && now_ns >= self.first_above_ns;
        self.first_above_ns = match (is_above, self.first_above_ns) {
            (false, _) => 0,
            (true, 0) => now_ns + interval_ns,
            (true, since_ns) => since_ns,
        };
        (packet, ok_to_drop)
    }

    /// Enters the dropping state. The drop rate that controlled the queue a short time ago is where it
    /// starts.
    fn start_dropping(&mut self, now_ns: u64, interval_ns: u64) {
        let delta = self.count.saturating_sub(self.last_count);
        let is_recent = now_ns.saturating_sub(self.drop_next_ns) < MEMORY_INTERVALS * interval_ns;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next_ns = self.control_law(now_ns, interval_ns);
        (self.last_count, self.is_dropping) = (self.count, true);
    }

    /// Returns the time of the next drop after one at `ns`.
    fn control_law(&self, ns: u64, interval_ns: u64) -> u64 {
        ns + (interval_ns as f64 / f64::from(self.count).sqrt()) as u64
    }
}

impl CoDelCall<'_, '_> {
    /// Marks the packet, or drops it. True if it was marked, and so is still there.
    fn mark_or_drop(&mut self, packet: &mut Option<Timed>) -> bool {
        if self.options.ecn && packet.as_mut().is_some_and(|packet| self.cx.mark_ce(&mut packet.frame)) {
            self.counts.marked += 1;
            return true;
        }
        self.drop(packet);
        false
    }

    fn drop(&mut self, packet: &mut Option<Timed>) {
        if let Some(packet) = packet.take() {
            self.counts.drops += 1;
            self.cx.drop(packet.frame, CODEL);
        }
    }
}
