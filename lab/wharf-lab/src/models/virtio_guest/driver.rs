//! The guest: its driver, its stack and its program, one step at a time.
//!
//! Order of work: interrupts, packets in the qdisc, polls, sockets that were told, programs.

use super::machine::{GUEST, HEADER_BYTES, Inbound, Machine, VHOST};
use super::ring::{Content, Packet};
use super::{Release, Traffic};
use wharf_sim::engine::Agenda;

impl Machine {
    /// Shows vhost the packet that the guest has written into the ring.
    pub(super) fn guest_written(&mut self, now_ns: u64, agenda: &mut Agenda) {
        if let Some(packet) = self.written.take() {
            self.ring.add(packet);
            self.stops_if_full();
            self.wakes(VHOST, now_ns, agenda);
        }
    }

    /// Begins the guest's next work, or idles it.
    pub(super) fn guest_next(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let work_ns = self
            .interrupt()
            .or_else(|| self.transmit(agenda))
            .or_else(|| self.freeing_due())
            .or_else(|| self.receive(now_ns))
            .or_else(|| self.poll_transmitted())
            .or_else(|| self.told_one(now_ns))
            .or_else(|| self.program(now_ns));
        if let Some(work_ns) = work_ns {
            self.work(GUEST, now_ns, work_ns, agenda);
        }
    }

    fn interrupt(&mut self) -> Option<u64> {
        if let Some(work_ns) = self.interrupted[0].take() {
            self.ring.disable_interrupt();
            if self.setup.release == Release::Napi {
                self.polls_transmitted = true;
            } else {
                // `skb_xmit_done`: the queue is woken, and its next transmit frees buffers.
                self.stopped = false;
            }
            return Some(work_ns);
        }
        let work_ns = self.interrupted[1].take()?;
        self.polls_received = true;
        // `virtnet_poll_cleantx`.
        Some(work_ns + if self.setup.release == Release::Napi { self.clean() } else { 0 })
    }

    /// Does `start_xmit` for the first waiting packet.
    fn transmit(&mut self, agenda: &Agenda) -> Option<u64> {
        if self.stopped {
            return None;
        }
        let packet = self.qdisc.pop_front()?;
        let costs = self.setup.costs;
        let mut work_ns = costs.xmit_ns + self.free_used();
        match self.setup.release {
            // The program is in the call that sends, and waits for nothing.
            Release::Upstream => _ = self.tells(&packet),
            Release::Timer { .. } => {}
            Release::Napi => {
                while !self.ring.enable_delayed() {
                    work_ns += self.free_used();
                }
            }
        }
        self.written = Some(packet);
        Some(work_ns + if self.sleeps(VHOST, agenda) { costs.kick_ns } else { 0 })
    }

    /// Stops the queue if the ring has no room for any packet, until enough of it has been used.
    fn stops_if_full(&mut self) {
        self.stopped = self.ring.is_full();
        if self.stopped && self.setup.release != Release::Napi && !self.ring.enable_delayed() {
            self.free_used();
            self.stopped = self.ring.is_full();
        }
    }

    /// Frees the buffers that the host has used. Returns the time.
    fn free_used(&mut self) -> u64 {
        let mut work_ns = 0;
        while let Some(packet) = self.ring.free_one() {
            work_ns += self.setup.costs.free_ns;
            if self.setup.release != Release::Upstream {
                work_ns += self.tells(&packet);
            }
        }
        work_ns
    }

    /// Frees buffers, and restarts the queue if there is room again. Returns the time.
    fn clean(&mut self) -> u64 {
        let work_ns = self.free_used();
        self.stopped &= self.ring.is_full();
        work_ns
    }

    fn freeing_due(&mut self) -> Option<u64> {
        std::mem::take(&mut self.freeing).then(|| self.setup.costs.interrupt_ns + self.clean())
    }

    /// Tells a packet's socket that it has left: small queues and send buffers have room again. Returns the time:
    /// a UDP socket wakes its program's `epoll_wait` for each packet (`sock_wfree`), a TCP socket does not.
    fn tells(&mut self, packet: &Packet) -> u64 {
        let flow = &mut self.flows[packet.flow];
        match packet.content {
            Content::Piece(piece) => {
                if flow.source.completed(&piece) {
                    self.told.push_back(packet.flow);
                }
                0
            }
            Content::Datagram => {
                if flow.blast.completed(1) {
                    self.ready.push_back(packet.flow);
                }
                self.setup.costs.find_ns
            }
            Content::Question if matches!(self.setup.traffic, Traffic::Requests { tcp: false, .. }) => {
                self.setup.costs.find_ns
            }
            Content::Question | Content::Ack => 0,
        }
    }

    /// Polls the receive ring for one packet.
    fn receive(&mut self, now_ns: u64) -> Option<u64> {
        if !self.polls_received {
            return None;
        }
        let Some(inbound) = self.received.pop_front() else {
            (self.polls_received, self.receive_armed) = (false, true);
            return None;
        };
        let costs = self.setup.costs;
        match inbound {
            Inbound::Ack(flow, ack) => {
                self.flows[flow].source.acked(now_ns, &ack);
                self.told.push_back(flow);
            }
            Inbound::Answer { flow, bytes } => {
                self.flows[flow].answered = true;
                self.ready.push_back(flow);
                if self.answers_at_once(bytes) {
                    self.enqueue(Packet { flow, content: Content::Ack, bytes: HEADER_BYTES, sent_ns: 0 });
                    return Some(costs.receive_ns + costs.ack_ns);
                }
            }
            Inbound::Bare => {}
        }
        Some(costs.receive_ns)
    }

    /// Polls the transmit ring for used buffers.
    fn poll_transmitted(&mut self) -> Option<u64> {
        if !std::mem::take(&mut self.polls_transmitted) {
            return None;
        }
        let mut work_ns = self.clean();
        while !self.ring.enable_interrupt() {
            work_ns += self.clean();
        }
        Some(work_ns)
    }

    /// Continues a stream whose window or small queue has opened, in a softirq.
    fn told_one(&mut self, now_ns: u64) -> Option<u64> {
        let number = self.told.pop_front()?;
        let work_ns = self.pump(number, now_ns);
        if self.flows[number].waits && self.has_room(number) {
            self.flows[number].waits = false;
            self.ready.push_back(number);
        }
        Some(work_ns)
    }

    /// Enqueues all that a stream may send now. Returns TCP's time for it.
    fn pump(&mut self, flow: usize, now_ns: u64) -> u64 {
        let mut work_ns = 0;
        while !self.setup.time.is_over(now_ns) {
            if self.qdisc.len() >= self.setup.qdisc_packets {
                self.flows[flow].source.refused();
                break;
            }
            let Some(piece) = self.flows[flow].source.next(now_ns) else { break };
            work_ns += self.setup.costs.send_ns;
            let bytes = piece.len_bytes;
            self.enqueue(Packet { flow, content: Content::Piece(piece), bytes, sent_ns: now_ns });
        }
        work_ns
    }

    /// Enqueues a packet. True if there was room.
    fn enqueue(&mut self, packet: Packet) -> bool {
        self.entered += 1;
        let has_room = self.qdisc.len() < self.setup.qdisc_packets;
        if has_room {
            self.qdisc.push_back(packet);
        } else {
            self.totals.dropped += 1;
        }
        has_room
    }

    fn has_room(&self, number: usize) -> bool {
        let (written, acked) = self.flows[number].source.written_and_acked();
        written - acked < self.setup.send_buffer_bytes
    }

    /// Lets the program do its next step: `epoll_wait` for a round of sockets, or one call for one of these.
    fn program(&mut self, now_ns: u64) -> Option<u64> {
        if self.setup.time.is_over(now_ns) {
            return None;
        }
        let Some(number) = self.round.pop_front() else {
            self.round.append(&mut self.ready);
            return (!self.round.is_empty()).then_some(self.setup.costs.find_ns);
        };
        let costs = self.setup.costs;
        let copying_ns = |bytes: u32| u64::from(bytes) * costs.copy_ps_per_byte / 1000;
        match self.setup.traffic {
            Traffic::TcpStream { write_bytes } => {
                self.flows[number].source.write(write_bytes.into());
                let work_ns = costs.write_ns + copying_ns(write_bytes) + self.pump(number, now_ns);
                self.flows[number].waits = !self.has_room(number);
                if !self.flows[number].waits {
                    self.ready.push_back(number);
                }
                Some(work_ns)
            }
            Traffic::UdpStream { datagram_bytes: bytes } => {
                if !self.flows[number].blast.send() {
                    return Some(costs.write_ns);
                }
                self.ready.push_back(number);
                let packet = Packet { flow: number, content: Content::Datagram, bytes, sent_ns: now_ns };
                if !self.enqueue(packet) {
                    self.flows[number].blast.completed(1);
                }
                Some(costs.write_ns + copying_ns(bytes))
            }
            Traffic::Requests { bytes, .. } => {
                let work_ns = costs.ask_ns + copying_ns(bytes);
                self.reads_or_asks(number, bytes, now_ns, work_ns);
                Some(work_ns)
            }
        }
    }

    /// Reads an answer, which takes `work_ns`, and waits until its socket is reported writable; or asks.
    fn reads_or_asks(&mut self, number: usize, bytes: u32, now_ns: u64, work_ns: u64) {
        let flow = &mut self.flows[number];
        if std::mem::take(&mut flow.answered) {
            self.answers_ns.extend(flow.asked_ns.map(|asked_ns| now_ns + work_ns - asked_ns));
            self.ready.push_back(number);
        } else {
            flow.asked_ns = Some(now_ns);
            self.enqueue(Packet { flow: number, content: Content::Question, bytes, sent_ns: now_ns });
        }
    }
}
