//! The peer: a program on the host that reads, and answers.

use super::{Inbound, Machine, PEER, VHOST};
use crate::models::virtio_guest::Traffic;
use crate::models::virtio_guest::ring::{Content, Packet};
use std::collections::VecDeque;
use wharf_sim::engine::Agenda;

/// One call of the program.
#[derive(Debug, Clone, Copy)]
enum Call {
    Read(Packet),
    /// The answer to this question.
    Answer(Packet),
}

/// The program, and its sockets' buffers.
#[derive(Debug, Default)]
pub(in crate::models::virtio_guest) struct Peer {
    pub(in crate::models::virtio_guest) unread: VecDeque<Packet>,
    pub(in crate::models::virtio_guest) unread_bytes: u64,
    /// Questions that were read, whose sockets the next `epoll_wait` will report writable.
    unanswered: VecDeque<Packet>,
    /// Calls for the sockets that the last one has reported.
    round: VecDeque<Call>,
    under_way: Option<Call>,
}

impl Peer {
    /// Returns the messages that it has not read, or not answered.
    pub(in crate::models::virtio_guest) fn waiting(&self) -> usize {
        self.unread.len() + self.unanswered.len() + self.round.len()
    }
}

impl Machine {
    /// Ends the peer's call.
    pub(in crate::models::virtio_guest) fn peer_called(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let packet = match self.peer.under_way.take() {
            None => return,
            Some(Call::Answer(packet)) => {
                let answer = Inbound::Answer { flow: packet.flow, bytes: packet.bytes };
                return self.answers(answer, packet.bytes, now_ns, agenda);
            }
            Some(Call::Read(packet)) => packet,
        };
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
            Content::Question => self.peer.unanswered.push_back(packet),
            Content::Ack => {}
        }
    }

    fn answers(&mut self, inbound: Inbound, bytes: u32, now_ns: u64, agenda: &mut Agenda) {
        self.enters_guest(inbound, bytes);
        self.wakes(VHOST, now_ns, agenda);
    }

    /// Begins the next call, or sleeps.
    pub(in crate::models::virtio_guest) fn peer_next(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let costs = self.setup.costs;
        let peer = &mut self.peer;
        let Some(call) = peer.round.pop_front() else {
            peer.round.extend(peer.unanswered.drain(..).map(Call::Answer));
            peer.round.extend(peer.unread.drain(..).map(Call::Read));
            if !peer.round.is_empty() {
                self.work(PEER, now_ns, costs.find_ns, agenda);
            }
            return;
        };
        peer.under_way = Some(call);
        let waking_ns = if self.sleeps(VHOST, agenda) { costs.wake_ns } else { 0 };
        let copying_ns = |packet: Packet| u64::from(packet.bytes) * costs.copy_ps_per_byte / 1000;
        let work_ns = match (call, self.setup.traffic) {
            (Call::Read(packet), Traffic::TcpStream { write_bytes }) => {
                // A read takes as much as a write of the guest, and each socket is read once in a round.
                let more = packet.bytes.div_ceil(write_bytes.max(1)).saturating_sub(1);
                let sockets = (1 + self.peer.round.len()).min(self.flows.len()) as u64;
                costs.ack_ns + copying_ns(packet) + waking_ns + u64::from(more) * costs.find_ns / sockets
            }
            (Call::Read(packet), _) => costs.answer_ns + copying_ns(packet),
            (Call::Answer(packet), _) => costs.answer_ns + copying_ns(packet) + waking_ns,
        };
        self.work(PEER, now_ns, work_ns, agenda);
    }
}
