//! The choice of a processor's next work, and senders.
//!
//! Softirqs go before processes. An interrupt cuts a process's own work, which continues afterwards. A
//! process makes packets while its socket has room, and sleeps until it has again.

use super::Kernel;
use super::state::Work;
use wharf_sim::engine::Agenda;

impl Kernel {
    /// Lets the running process go on, switches to the next one, or idles the processor.
    pub(super) fn next_process(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let (buffer_packets, ending) = (self.setup.traffic.buffer_packets(), self.setup.time.is_over(now_ns));
        let processor = &mut self.processors[at];
        let mut switch_ns = 0;
        if let Some(stream) = processor.process {
            let full = self.streams[stream].buffered() >= buffer_packets;
            if full || ending {
                (self.streams[stream].asleep, processor.process) = (full, None);
            } else if processor.cpu.take_resched() && !processor.ready.is_empty() {
                processor.ready.push_back(stream);
                processor.process = None;
            }
        }
        if processor.process.is_none() {
            processor.process = if ending { None } else { processor.ready.pop_front() };
            switch_ns = self.setup.costs.switch_ns;
        }
        if processor.process.is_none() {
            processor.doing = Work::Idle;
            return;
        }
        let make_ns = self.setup.traffic.make_ns;
        let work_ns = switch_ns + self.random.around(make_ns, self.setup.time.jitter_permille);
        self.work(at, now_ns, work_ns, Work::Making, agenda);
    }

    /// Handles a packet that the process on `at` has made.
    pub(super) fn packet_made(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(number) = self.processors[at].process else { return self.proceed(at, now_ns, agenda) };
        let window_packets = self.setup.traffic.window_packets;
        let stream = &mut self.streams[number];
        stream.unsent += 1;
        if stream.inflight >= window_packets {
            return self.proceed(at, now_ns, agenda);
        }
        self.send_one(at, number, now_ns, agenda);
    }

    /// Sends one ready packet of stream `number` on processor `at`.
    #[inline]
    pub(super) fn send_one(&mut self, at: usize, number: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(frame) = self.stock.take(number, self.setup.frame_bytes) else {
            return self.proceed(at, now_ns, agenda);
        };
        let stream = &mut self.streams[number];
        stream.unsent -= 1;
        stream.inflight += 1;
        self.witness.enters(number, frame.index());
        let queue = stream.queue;
        self.start_xmit(at, queue, Some(frame), now_ns, agenda);
    }

    /// Frees `packets` of a stream's buffer. Returns the cost of waking its process.
    pub(super) fn free_buffer(
        &mut self, number: usize, packets: u32, now_ns: u64, agenda: &mut Agenda,
    ) -> u64 {
        let buffer_packets = self.setup.traffic.buffer_packets();
        let stream = &mut self.streams[number];
        stream.inflight -= packets;
        if !stream.asleep || stream.buffered() > buffer_packets / 2 || self.setup.time.is_over(now_ns) {
            return 0;
        }
        stream.asleep = false;
        let processor = &mut self.processors[stream.cpu];
        processor.ready.push_back(number);
        if processor.doing == Work::Idle {
            agenda.set_no_later(stream.cpu, now_ns + self.setup.costs.idle_exit_ns);
        }
        self.setup.costs.wake_ns
    }

    /// Lets processor `at` work for `work_ns`, and then be done with `doing`.
    #[inline]
    pub(super) fn work(&mut self, at: usize, now_ns: u64, work_ns: u64, doing: Work, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        let mode = processor.mode();
        processor.doing = doing;
        let end_ns = processor.cpu.work(now_ns, work_ns, mode);
        agenda.set(at, end_ns);
    }

    #[inline]
    pub(super) fn processor_acts(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].doing {
            Work::Xmit => self.xmit_step(at, now_ns, agenda),
            Work::Making => self.packet_made(at, now_ns, agenda),
            Work::Softirq => self.softirq_step(at, now_ns, agenda),
            Work::Idle => self.proceed(at, now_ns, agenda),
            Work::Spinning => debug_assert!(false, "a spinning processor has no event"),
        }
    }

    /// Ends a piece of work; an interrupt may come before the next.
    #[inline]
    pub(super) fn proceed(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        if processor.in_softirq || processor.softirq.is_pending() {
            processor.in_softirq = true;
            return self.next_softirq(at, now_ns, agenda);
        }
        self.next_process(at, now_ns, agenda);
    }

    /// Returns from the softirqs to the work that they interrupted.
    pub(super) fn leave_softirq(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        processor.in_softirq = false;
        match processor.cut_ns.take() {
            Some(left_ns) => {
                processor.doing = Work::Making;
                let mode = processor.mode();
                processor.cpu.goes_on(now_ns, left_ns, mode);
                agenda.set(at, now_ns + left_ns);
            }
            None => self.next_process(at, now_ns, agenda),
        }
    }

    /// Raises a softirq: at once if the processor idles or is in its process's own work.
    pub(super) fn raise(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        match processor.doing {
            Work::Idle if agenda.due_ns(at).is_none() => {
                agenda.set(at, now_ns + self.setup.costs.idle_exit_ns);
            }
            Work::Making => {
                let end_ns = agenda.due_ns(at).unwrap_or(now_ns);
                processor.cut_ns = Some(end_ns.saturating_sub(now_ns));
                agenda.clear(at);
                self.proceed(at, now_ns, agenda);
            }
            _ => {}
        }
    }
}
