//! A run of the qdisc: packets are dequeued, segmented and given to the driver until that stops.

use super::Offload;
use super::host::{Host, Info};
use super::nic::Packet;
use wharf_core::qdisc::Limit;
use wharf_mem::Frame;

/// Most bytes of a super-packet that a descriptor points at: a page's fragment.
const FRAGMENT_BYTES: u32 = 4096;
/// Most super-packets of one bulk.
const BULK_PACKETS_MAX: usize = 64;

impl Host {
    /// Does one round of `qdisc_restart`. Returns its time, or `None` if there is nothing to do, or the
    /// driver is stopped.
    pub(super) fn transmit(&mut self) -> Option<u64> {
        if self.is_stopped() {
            return None;
        }
        let mut work_ns = 0;
        if self.batch.is_empty() {
            let taken = self.dequeue();
            if taken == 0 {
                return None;
            }
            let streams = self.of_streams();
            (self.totals.bulks, self.totals.super_packets) =
                (self.totals.bulks + u64::from(streams > 0), self.totals.super_packets + streams);
            work_ns += taken as u64 * self.setup.costs.dequeue_ns + self.cutting_ns();
        }
        let before = self.nic.owed.len();
        self.hand_over();
        let handed = (self.nic.owed.len() - before) as u64;
        self.totals.requeues += u64::from(!self.batch.is_empty());
        Some(work_ns + handed * self.setup.costs.driver_ns + self.setup.costs.doorbell_ns)
    }

    /// Lets a packet for an empty qdisc bypass it (`TCQ_F_CAN_BYPASS`), even if the driver is stopped; the
    /// packet is then requeued, and goes first. (The time of segmenting it is not charged.)
    pub(super) fn bypasses(&mut self) {
        if self.is_stopped() {
            self.qdisc.dequeue(&mut self.batch, Limit::packets(1));
            self.totals.requeues += 1;
        }
    }

    /// Dequeues the packets that the byte limit allows, and one past it: an exhausted limit lets one through.
    /// Without bulks of super-packets (the first patch of the two) a super-packet ends the bulk, and may
    /// follow small packets.
    fn dequeue(&mut self) -> usize {
        let bytes = self.bql.available().max(1) as u64;
        if self.setup.bulk {
            return self.qdisc.dequeue(&mut self.batch, Limit { packets: BULK_PACKETS_MAX, bytes });
        }
        while self.batch.len() < BULK_PACKETS_MAX
            && self.batch.bytes() < bytes
            && self.qdisc.dequeue(&mut self.batch, Limit::packets(1)) > 0
            && !self.batch.frames().last().is_some_and(|frame| self.is_super_packet(frame))
        {}
        self.batch.len()
    }

    fn is_super_packet(&self, frame: &Frame) -> bool {
        matches!(&self.infos[frame.index() as usize], Info::Stream { piece, .. } if piece.packets > 1)
    }

    fn is_stopped(&self) -> bool {
        self.bql.available() < 0 || !self.nic.has_room(self.needs_descriptors())
    }

    /// Returns the descriptors that must be free for the driver not to stop.
    fn needs_descriptors(&self) -> u32 {
        match self.setup.offload {
            Offload::Gso => 4,
            Offload::Tso => self.setup.rules.super_bytes_max.div_ceil(FRAGMENT_BYTES) + 4,
        }
    }

    /// Returns the number of the streams' packets in the batch.
    fn of_streams(&self) -> u64 {
        let is_one = |frame: &&Frame| matches!(self.infos[frame.index() as usize], Info::Stream { .. });
        self.batch.frames().iter().filter(is_one).count() as u64
    }

    /// Returns the time of segmenting the batch.
    fn cutting_ns(&self) -> u64 {
        if self.setup.offload == Offload::Tso {
            return 0;
        }
        let packets = |frame: &Frame| match &self.infos[frame.index() as usize] {
            Info::Stream { piece, .. } if piece.packets > 1 => u64::from(piece.packets),
            _ => 0,
        };
        self.batch.frames().iter().map(packets).sum::<u64>() * self.setup.costs.cut_ns
    }

    /// Gives the batch to the driver, packet by packet, until that stops. The rest stays in the batch.
    fn hand_over(&mut self) {
        while let Some(index) = self.batch.frames().first().map(Frame::index) {
            let Some(packet) = self.next_packet(index) else { break };
            self.bql.queued(packet.bytes);
            self.nic.write(packet);
            if packet.last
                && let Some(frame) = self.batch.pop()
            {
                self.in_nic.push_back(frame);
            }
            if self.is_stopped() {
                break;
            }
        }
    }

    /// Returns the next packet of the super-packet in that buffer.
    fn next_packet(&mut self, index: u32) -> Option<Packet> {
        let (header_bytes, mss_bytes) = (self.setup.header_bytes, self.setup.rules.mss_bytes);
        match &mut self.infos[index as usize] {
            Info::Probe { kind, .. } => {
                let bytes = kind.bytes(&self.setup);
                Some(Packet { index, bytes, descriptors: 1, last: true, packets: 1 })
            }
            Info::Stream { piece, .. } if self.setup.offload == Offload::Tso => {
                let bytes = piece.len_bytes + piece.packets * header_bytes;
                let descriptors = piece.len_bytes.div_ceil(FRAGMENT_BYTES) + 1;
                Some(Packet { index, bytes, descriptors, last: true, packets: piece.packets })
            }
            Info::Stream { piece, cut, .. } => {
                let payload_bytes = (piece.len_bytes - *cut * mss_bytes).min(mss_bytes);
                *cut += 1;
                let (bytes, last) = (payload_bytes + header_bytes, *cut == piece.packets);
                Some(Packet { index, bytes, descriptors: 1, last, packets: 1 })
            }
            Info::Free => None,
        }
    }
}
