//! Lines on standard error about the devices while frames are forwarded.

use crate::args::RecoveryArgs;
use crate::link::{LinkWatch, Packets, dropped};
use crate::overload::Overload;
use crate::queues::sum;
use crate::recovery::Recovery;
use crate::repeats::Lines;
use crate::stall::Stall;
use wharf::forward::{Direction, Forward, Summary};
use wharf_core::counters::QueueCounters;
use wharf_core::rx::RxQueue;

/// The lines printed so far.
pub(super) struct Tells {
    /// By direction.
    ways: Vec<Way>,
    lines: Lines,
}

/// What was printed of one direction.
struct Way {
    link: LinkWatch,
    /// By queue.
    sending: Vec<Told>,
    overload: Overload,
}

impl Tells {
    pub(super) fn of(forward: &Forward, args: RecoveryArgs, [a, b]: &[Recovery; 2]) -> Self {
        let way = |direction: &Direction| {
            let recovery = if a.is_of(&direction.to) { a } else { b };
            let told = |_| Told { errors: 0, stall: Stall::new(args, recovery.clone()) };
            Way {
                link: LinkWatch::new(direction.to.clone(), args, recovery).of_forward(),
                sending: direction.queues.iter().map(told).collect(),
                overload: Overload::new(format!("{} to {}", direction.from, direction.to)),
            }
        };
        Self { ways: forward.directions().iter().map(way).collect(), lines: Lines::default() }
    }

    /// Prints what has changed at both ends. Returns the error of a device that is given up.
    pub(super) fn look(&mut self, forward: &Forward) -> Option<String> {
        let mut given_up = None;
        for (direction, way) in forward.directions().iter().zip(&mut self.ways) {
            way.overload.look(|| (sum(&direction.queues, |all| all.sent.get()), direction.drops()));
        }
        for (direction, Way { link, sending, .. }) in forward.directions().iter().zip(&mut self.ways) {
            let dropped = || Packets::Leaving(sum(&direction.queues, dropped));
            let errors = sum(&direction.queues, |all| all.device_errors.get());
            given_up = link.look(&direction.queues, errors, dropped, &mut self.lines).or(given_up);
            for (queue, told) in direction.queues.iter().zip(sending) {
                let news = told.news(queue.counters());
                news.iter().for_each(|line| self.lines.tell(line));
                given_up = told.stall.look(&direction.to, queue, link).or(given_up);
            }
            let arriving = direction.receivers.iter().filter_map(RxQueue::take_error);
            arriving.for_each(|error| self.lines.tell(&error.to_string()));
        }
        given_up
    }

    /// Prints what has changed at the end of the run, without the errors that the summary prints.
    pub(super) fn look_back(&mut self, summaries: &[Summary], lost: Option<&String>) {
        for (summary, way) in summaries.iter().zip(&mut self.ways) {
            for (queue, told) in summary.queues.iter().zip(&mut way.sending) {
                let news = told.news(queue.counters());
                let news = news.filter(|line| !line.starts_with("trace:") && Some(line) != lost);
                news.iter().for_each(|line| self.lines.tell(line));
            }
        }
    }
}

/// Errors and a stall that were printed for a queue of a sending end.
#[derive(Debug)]
struct Told {
    errors: u64,
    stall: Stall,
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
