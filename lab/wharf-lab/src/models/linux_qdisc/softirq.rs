//! Softirqs: completions and acknowledgements, by polling, and qdiscs to run.

use super::queue::CompletionSink;
use super::state::{Processor, SoftirqStep as Step, Work};
use super::{Kernel, Tcp};
use wharf_sim::engine::{Agenda, first_due, take_due};

impl Kernel {
    /// Interrupts processor `at`.
    pub(super) fn interrupt(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.vectors[at].last_ns = now_ns;
        self.vectors[at].masked = true;
        self.processors[at].softirq.poll = true;
        self.raise(at, now_ns, agenda);
    }

    /// Schedules the next interrupt of processor `at`, for a completion of its queue or an acknowledgement,
    /// but not before the gap between two interrupts is over.
    #[inline]
    pub(super) fn arm(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let vector = &self.vectors[at];
        if vector.masked {
            return;
        }
        let acked_ns = first_due(&vector.acks);
        let written_ns = if at < self.queues.len() { self.nic.next_write_back_ns(at) } else { None };
        let due_ns = written_ns.unwrap_or(u64::MAX).min(acked_ns);
        if due_ns == u64::MAX {
            return;
        }
        let earliest_ns = vector.last_ns + self.setup.costs.interrupt_gap_ns;
        agenda.set_no_later(self.vector_slot(at), due_ns.max(earliest_ns).max(now_ns));
    }

    /// Begins the next softirq work, or returns to processes.
    pub(super) fn next_softirq(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let softirq = &mut self.processors[at].softirq;
        if std::mem::take(&mut softirq.poll) {
            softirq.polling = true;
            return self.softirq_work(at, now_ns, self.setup.costs.interrupt_ns, Step::Entered, agenda);
        }
        if softirq.allowed.is_some() {
            return self.softirq_work(at, now_ns, self.tcp_costs().0, Step::Made, agenda);
        }
        if let Some((stream, packets)) = softirq.acked.pop_front() {
            return self.acknowledged(at, stream, packets, now_ns, agenda);
        }
        if let Some(queue) = softirq.run.pop_front() {
            return self.start_xmit(at, queue, None, now_ns, agenda);
        }
        if std::mem::take(&mut softirq.polling) {
            self.vectors[at].masked = false;
            self.arm(at, now_ns, agenda);
        }
        self.leave_softirq(at, now_ns, agenda);
    }

    fn softirq_work(&mut self, at: usize, now_ns: u64, work_ns: u64, step: Step, agenda: &mut Agenda) {
        self.processors[at].softirq.step = step;
        self.work(at, now_ns, work_ns, Work::Softirq, agenda);
    }

    pub(super) fn softirq_step(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].softirq.step {
            Step::Entered => self.poll(at, now_ns, agenda),
            Step::Done => self.proceed(at, now_ns, agenda),
            Step::Made => self.send_allowed(at, now_ns, agenda),
        }
    }

    /// Sends one of the packets that an acknowledgement has allowed, unless the process was faster.
    fn send_allowed(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let allowed = &mut self.processors[at].softirq.allowed;
        let Some((number, packets)) = *allowed else { return self.proceed(at, now_ns, agenda) };
        let stream = &self.streams[number];
        if stream.unsent == 0 || stream.inflight >= self.setup.traffic.window_packets {
            *allowed = None;
            return self.proceed(at, now_ns, agenda);
        }
        *allowed = (packets > 1).then_some((number, packets - 1));
        self.send_one(at, number, now_ns, agenda);
    }

    /// Takes the completions of the processor's queue, and the acknowledgements that have come.
    fn poll(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let work_ns = if at < self.queues.len() { self.reap(at, now_ns, agenda) } else { 0 };
        let (vector, softirq) = (&mut self.vectors[at], &mut self.processors[at].softirq);
        softirq.acked.extend(std::iter::from_fn(|| take_due(&mut vector.acks, now_ns)));
        self.softirq_work(at, now_ns, work_ns, Step::Done, agenda);
    }

    /// Takes the completions of queue `at`. Returns the time.
    fn reap(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) -> u64 {
        self.nic.write_back(at, now_ns);
        let queue = &mut self.queues[at];
        let mut home = CompletionSink { cache: &mut self.stock.cache, counts: &mut self.home };
        let (packets, _) = queue.run.reap(&mut home);
        if queue.is_open() && queue.has_backlog() && !queue.running {
            self.processors[at].softirq.run_later(at);
        }
        let costs = &self.setup.costs;
        let work_ns = u64::from(packets) * costs.reclaim_ns + queue.calls_done(packets) * costs.completion_ns;
        if packets > 0 { work_ns + self.completed(at, now_ns, agenda) } else { work_ns }
    }

    /// Handles completed packets of queue `at`: sockets have room again, or an acknowledgement is on its way.
    fn completed(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) -> u64 {
        let mut work_ns = 0;
        for stream in (at..self.streams.len()).step_by(self.queues.len()) {
            let packets = std::mem::take(&mut self.home[stream]);
            if packets == 0 {
                continue;
            }
            let Some(Tcp { round_trip_ns, .. }) = self.setup.traffic.tcp else {
                work_ns += self.free_buffer(stream, packets, now_ns, agenda);
                continue;
            };
            let ack_cpu = self.streams[stream].ack_cpu;
            let there_ns = now_ns + round_trip_ns / 2;
            let far = self.far.as_mut();
            let leaves_ns = far.map_or(there_ns, |far| far.receives(stream, packets, there_ns));
            let ack = (leaves_ns + round_trip_ns.div_ceil(2), (stream, packets));
            let acks = &mut self.vectors[ack_cpu].acks;
            acks.insert(acks.partition_point(|other| other.0 <= ack.0), ack);
            self.arm(ack_cpu, now_ns, agenda);
        }
        work_ns
    }

    /// Handles an acknowledgement of `packets`: the window moves, and permits others.
    fn acknowledged(&mut self, at: usize, stream: usize, packets: u32, now_ns: u64, agenda: &mut Agenda) {
        let work_ns = u64::from(packets.div_ceil(2)) * self.tcp_costs().1;
        let waking_ns = self.free_buffer(stream, packets, now_ns, agenda);
        let window_packets = self.setup.traffic.window_packets;
        let Processor { softirq, .. } = &mut self.processors[at];
        let stream_now = &self.streams[stream];
        let count = window_packets.saturating_sub(stream_now.inflight).min(stream_now.unsent);
        softirq.allowed = (count > 0).then_some((stream, count));
        self.softirq_work(at, now_ns, work_ns + waking_ns, Step::Done, agenda);
    }

    /// Returns the times of sending one packet and of receiving one acknowledgement.
    fn tcp_costs(&self) -> (u64, u64) {
        self.setup.traffic.tcp.map_or((0, 0), |tcp| (tcp.send_ns, tcp.ack_ns))
    }
}
