//! vhost: carries packets out of the guest and into it, one ring at a time.

use super::{GUEST, Inbound, Machine, PEER, VHOST, carried_bytes};
use crate::models::virtio_guest::Traffic;
use crate::models::virtio_guest::ring::{Content, Packet};
use std::collections::VecDeque;
use wharf_sim::engine::Agenda;

/// Bytes of one ring in a row (`VHOST_NET_WEIGHT`).
const WEIGHT_BYTES: u32 = 0x8_0000;

/// The packet that it carries.
#[derive(Debug, Clone, Copy)]
enum Carried {
    Out(Packet),
    In(Inbound),
}

/// The thread.
#[derive(Debug)]
pub(in crate::models::virtio_guest) struct Vhost {
    /// Packets for the guest, with their lengths.
    pub(in crate::models::virtio_guest) inbound: VecDeque<(Inbound, u32)>,
    carrying: Option<Carried>,
    /// Bytes carried of the same ring in a row.
    carried_bytes: u32,
    outward: bool,
    /// True if it has found both rings empty: its next packet begins a turn.
    idle: bool,
    /// Time for interrupts and wake-ups, to be spent before the next packet.
    owed_ns: u64,
}

impl Default for Vhost {
    fn default() -> Self {
        Self {
            inbound: VecDeque::new(),
            carrying: None,
            carried_bytes: 0,
            outward: true,
            idle: true,
            owed_ns: 0,
        }
    }
}

impl Machine {
    /// Delivers the packet that vhost has carried.
    pub(in crate::models::virtio_guest) fn vhost_carried(&mut self, now_ns: u64, agenda: &mut Agenda) {
        match self.vhost.carrying.take() {
            None => {}
            Some(Carried::Out(packet)) => {
                self.left += 1;
                self.delivered(packet, now_ns, agenda);
                if self.ring.use_first() {
                    self.totals.transmit_interrupts += 1;
                    self.interrupts(0, now_ns, agenda);
                }
            }
            Some(Carried::In(inbound)) => {
                self.left += 1;
                self.received.push_back(inbound);
                if std::mem::take(&mut self.receive_armed) {
                    self.interrupts(1, now_ns, agenda);
                }
            }
        }
    }

    /// Interrupts the guest for a ring: 0 for the transmit ring.
    fn interrupts(&mut self, ring: usize, now_ns: u64, agenda: &mut Agenda) {
        self.vhost.owed_ns += self.setup.costs.signal_ns;
        let costs = self.setup.costs;
        // A posted interrupt reaches a processor that runs without an exit; one that idles is left by an
        // exit.
        let runs = self.threads[GUEST].busy;
        self.interrupted[ring] = Some(if runs { costs.interrupt_running_ns } else { costs.interrupt_ns });
        self.wakes(GUEST, now_ns, agenda);
    }

    /// Delivers a packet of the guest to the peer's socket, or drops it there.
    fn delivered(&mut self, packet: Packet, now_ns: u64, agenda: &mut Agenda) {
        match packet.content {
            Content::Ack => return,
            Content::Piece(_) => {
                self.totals.data_packets += 1;
                self.totals.data_bytes += u64::from(packet.bytes);
            }
            Content::Datagram => {
                let full = self.peer.unread_bytes + u64::from(packet.bytes) > self.setup.receive_buffer_bytes;
                if full && self.peer.unread_bytes > 0 {
                    // It has left the guest; the peer never sees it.
                    return;
                }
                self.peer.unread_bytes += u64::from(packet.bytes);
                self.totals.data_packets += 1;
                self.totals.data_bytes += u64::from(packet.bytes);
            }
            Content::Question => {
                if self.answers_at_once(packet.bytes) {
                    self.vhost.owed_ns += self.setup.costs.ack_ns;
                    self.enters_guest(Inbound::Bare, 0);
                }
            }
        }
        self.peer.unread.push_back(packet);
        if self.sleeps(PEER, agenda) {
            self.vhost.owed_ns += self.setup.costs.wake_ns;
            self.wakes(PEER, now_ns, agenda);
        }
    }

    /// True if a message is acknowledged before it is answered.
    pub(in crate::models::virtio_guest) fn answers_at_once(&self, bytes: u32) -> bool {
        matches!(self.setup.traffic, Traffic::Requests { tcp: true, .. })
            && bytes > self.setup.rules.mss_bytes
    }

    /// Queues a packet for the guest with vhost.
    pub(in crate::models::virtio_guest) fn enters_guest(&mut self, inbound: Inbound, bytes: u32) {
        self.entered += 1;
        self.vhost.inbound.push_back((inbound, bytes));
    }

    /// Begins the next packet, or sleeps.
    pub(in crate::models::virtio_guest) fn vhost_next(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let costs = self.setup.costs;
        if self.vhost.carried_bytes >= WEIGHT_BYTES {
            (self.vhost.outward, self.vhost.carried_bytes) = (!self.vhost.outward, 0);
        }
        let (outbound, inbound) = (self.ring.first(), !self.vhost.inbound.is_empty());
        let outward = if self.vhost.outward { outbound.is_some() } else { outbound.is_some() && !inbound };
        let begins = outward != self.vhost.outward || self.vhost.idle;
        if begins {
            (self.vhost.outward, self.vhost.carried_bytes) = (outward, 0);
        }
        let (carried, work_ns, bytes) = match (outward, outbound) {
            (true, Some(packet)) => {
                let bytes = carried_bytes(&packet);
                (Carried::Out(packet), costs.carry_ns + self.carrying_ns(&packet), bytes)
            }
            _ => match self.vhost.inbound.pop_front() {
                Some((inbound, bytes)) => {
                    let copying_ns = u64::from(bytes) * costs.carry_ps_per_byte / 1000;
                    (Carried::In(inbound), costs.carry_ns + copying_ns, bytes)
                }
                None => {
                    self.vhost.idle = true;
                    let owed_ns = std::mem::take(&mut self.vhost.owed_ns);
                    if owed_ns > 0 {
                        self.work(VHOST, now_ns, owed_ns, agenda);
                    }
                    return;
                }
            },
        };
        self.vhost.carried_bytes += bytes;
        self.vhost.carrying = Some(carried);
        let owed_ns = std::mem::take(&mut self.vhost.owed_ns);
        let turn_ns = if begins { costs.turn_ns } else { 0 };
        self.vhost.idle = false;
        self.work(VHOST, now_ns, work_ns + owed_ns + turn_ns, agenda);
    }

    /// Returns the time of copying a packet out of the guest.
    fn carrying_ns(&self, packet: &Packet) -> u64 {
        let costs = self.setup.costs;
        let flows = self.flows.len() as u64;
        // The cache holds the data of as many streams, of all that take turns.
        let cold_ps = costs.cold_ps_per_byte * flows.saturating_sub(costs.cache_flows) / flows.max(1);
        let ps_per_byte = match packet.content {
            Content::Datagram => costs.datagram_ps_per_byte,
            Content::Piece(_) => costs.carry_ps_per_byte + cold_ps,
            _ => costs.carry_ps_per_byte,
        };
        let super_ns = if packet.bytes > self.setup.rules.mss_bytes { costs.super_ns } else { 0 };
        super_ns + u64::from(carried_bytes(packet)) * ps_per_byte / 1000
    }
}
