//! The choice of a processor's next work. Softirqs go before processes. An interrupt cuts a process's own
//! work, which continues afterwards.

use super::Kernel;
use super::state::Work;
use wharf_sim::engine::Agenda;
use wharf_sim::nic::simple::Hardware;

impl<H: Hardware> Kernel<H> {
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
