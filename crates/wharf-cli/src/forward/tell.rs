//! Lines on standard error about the devices while frames are forwarded.

use crate::args::ForwardArgs;
use crate::news::News;
use crate::overload::Overload;
use crate::queues::sum;
use crate::repeats::Lines;
use wharf::forward::{Direction, Forward, Summary};
use wharf_core::counters::QueueCounters;
use wharf_core::rx::RxQueue;
use wharf_devices::spec::DeviceSpec;

/// The lines printed so far.
pub(super) struct Tells {
    ends: Vec<News>,
    /// By direction.
    ways: Vec<Way>,
    lines: Lines,
}

/// What was printed of one direction.
struct Way {
    /// Errors printed, by queue.
    sending: Vec<Told>,
    overload: Overload,
}

impl Tells {
    pub(super) fn of(forward: &Forward, args: &ForwardArgs) -> anyhow::Result<Self> {
        let ends = forward.ports().iter().zip(args.ends());
        let ends = ends.map(|(ports, spec)| Ok(News::of(ports, spec, args.recovery)?.of_forward()));
        let ends = ends.collect::<anyhow::Result<_>>()?;
        let ways = forward.directions().iter().map(Way::of).collect();
        Ok(Self { ends, ways, lines: Lines::default() })
    }

    /// Begins the lines about the port that was plugged last, over `end`.
    pub(super) fn plug(
        &mut self, forward: &Forward, end: &DeviceSpec, args: &ForwardArgs,
    ) -> anyhow::Result<()> {
        let ports = forward.ports().last().map_or(&[][..], Vec::as_slice);
        self.ends.push(News::of(ports, end, args.recovery)?.of_forward());
        self.ways.extend(forward.directions().last().map(Way::of));
        Ok(())
    }

    /// Ends the lines about port `at`.
    pub(super) fn unplug(&mut self, at: usize) {
        drop((self.ends.remove(at), self.ways.remove(at)));
    }

    /// Prints what has changed at both ends. Returns the error of a device that is given up.
    pub(super) fn look(&mut self, forward: &Forward) -> Option<String> {
        for (direction, way) in forward.directions().iter().zip(&mut self.ways) {
            way.overload.look(|| (sum(&direction.queues, |all| all.sent.get()), direction.drops()));
        }
        let looked = self.ends.iter_mut().map(|end| end.look(&mut self.lines));
        let given_up: Vec<_> = looked.collect();
        for (direction, Way { sending, .. }) in forward.directions().iter().zip(&mut self.ways) {
            let told = direction.queues.iter().zip(sending);
            let news = told.filter_map(|(queue, told)| told.news(queue.counters()));
            news.for_each(|line| self.lines.tell(&line));
            let arriving = direction.receivers.iter().filter_map(RxQueue::take_error);
            arriving.for_each(|error| self.lines.tell(&error.to_string()));
        }
        given_up.into_iter().flatten().next()
    }

    /// Ends the lines about devices. Returns the faults of those that are away.
    pub(super) fn end(&mut self) -> Vec<String> {
        self.ends.iter_mut().filter_map(News::end).collect()
    }

    /// Prints what has changed at the end of the run, without the errors that the summary prints.
    pub(super) fn look_back(&mut self, summaries: &[Summary], lost: Option<&String>) {
        for (summary, way) in summaries.iter().zip(&mut self.ways) {
            for (queue, told) in summary.queues.iter().zip(&mut way.sending) {
                let news = told.news(queue.counters());
                // A device that has gone says so again as it closes, with the frames that it lacks.
                let is_lost = |line: &str| {
                    lost.and_then(|lost| lost.rsplit_once(": "))
                        .is_some_and(|(head, _)| line.starts_with(head))
                };
                let news = news.filter(|line| !is_lost(line));
                news.iter().for_each(|line| self.lines.tell(line));
            }
        }
    }
}

impl Way {
    fn of(direction: &Direction) -> Self {
        let Direction { from, to, queues, .. } = direction;
        let name = if from == to { format!("to {to}") } else { format!("{from} to {to}") };
        Self { sending: queues.iter().map(|_| Told::default()).collect(), overload: Overload::new(name) }
    }
}

/// Errors that were printed for a queue of a sending end.
#[derive(Debug, Default)]
struct Told {
    errors: u64,
}

impl Told {
    /// Returns the last error of a queue's device, unless it was printed, or says that the line is down.
    fn news(&mut self, counters: &QueueCounters) -> Option<String> {
        let errors = counters.device_errors.get();
        if std::mem::replace(&mut self.errors, errors) == errors {
            None
        } else {
            counters.last_error_beside_line()
        }
    }
}
