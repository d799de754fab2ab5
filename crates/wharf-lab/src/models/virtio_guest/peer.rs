//! The peer: a program on the host that reads, and answers.

use super::Traffic;
use super::machine::{Inbound, Machine, PEER, VHOST};
use super::ring::{Content, Packet};
use std::collections::VecDeque;
use wharf_sim::engine::Agenda;

/// The program, and its socket's buffer.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) unread: VecDeque<Packet>,
    pub(super) unread_bytes: u64,
    reading: Option<Packet>,
}

impl Machine {
    /// Ends the peer's reading of a message.
    pub(super) fn peer_read(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let Some(packet) = self.peer.reading.take() else { return };
        match packet.content {
            Content::Piece(piece) => {
                let range = (piece.from, piece.to());
                let flow = &mut self.flows[packet.flow];
                let mss_bytes = self.setup.rules.mss_bytes;
                let before = flow.receiver.next();
                let sent_ns = (!piece.again).then_some(packet.sent_ns);
                let ack = flow.receiver.received(now_ns, range, sent_ns, mss_bytes);
                self.totals.read_bytes += flow.receiver.next() - before;
                if let Some(ack) = ack {
                    self.answers(Inbound::Ack(packet.flow, ack), 0, now_ns, agenda);
                }
            }
            Content::Datagram => {
                self.peer.unread_bytes -= u64::from(packet.bytes);
                self.totals.read_bytes += u64::from(packet.bytes);
            }
            Content::Question => {
                let answer = Inbound::Answer { flow: packet.flow, bytes: packet.bytes };
                self.answers(answer, packet.bytes, now_ns, agenda);
            }
            Content::Ack => {}
        }
    }

    fn answers(&mut self, inbound: Inbound, bytes: u32, now_ns: u64, agenda: &mut Agenda) {
        self.enters_guest(inbound, bytes);
        self.wakes(VHOST, now_ns, agenda);
    }

    /// Begins the next message, or sleeps.
    pub(super) fn peer_next(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let Some(packet) = self.peer.unread.pop_front() else { return };
        let work_ns = self.reading_ns(&packet) + self.waking_ns(agenda);
        self.peer.reading = Some(packet);
        self.work(PEER, now_ns, work_ns, agenda);
    }

    /// Returns the cost of waking vhost to the answering thread.
    fn waking_ns(&self, agenda: &Agenda) -> u64 {
        if self.sleeps(VHOST, agenda) { self.setup.costs.wake_ns } else { 0 }
    }

    fn reading_ns(&mut self, packet: &Packet) -> u64 {
        let costs = self.setup.costs;
        let copying_ns = u64::from(packet.bytes) * costs.copy_ps_per_byte / 1000;
        match self.setup.traffic {
            Traffic::TcpStream { .. } => costs.ack_ns + copying_ns,
            Traffic::UdpStream { .. } => copying_ns,
            // The answer is copied as well.
            Traffic::Requests { .. } => {
                self.finding_ns(1, self.peer.unread.len()) + costs.answer_ns + 2 * copying_ns
            }
        }
    }
}
