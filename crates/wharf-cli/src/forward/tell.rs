//! Lines on standard error about the devices while frames are forwarded.

use crate::args::RecoveryArgs;
use crate::link::{LinkWatch, Packets, dropped};
use crate::overload::Overload;
use crate::queues::sum;
use crate::recovery::Recovery;
use crate::repeats::Lines;
use crate::stall::Stall;
use wharf::counters::QueueCounters;
use wharf::rx::RxQueue;
use wharf_tools::forward::{Direction, Forward, Summary};

/// The lines printed so far.
pub(super) struct Tells {
    /// By direction.
    links: Vec<LinkWatch>,
    /// By direction and queue.
    sending: Vec<Vec<Told>>,
    /// By direction.
    overloads: Vec<Overload>,
    lines: Lines,
}

impl Tells {
    pub(super) fn of(forward: &Forward, args: RecoveryArgs, [a, b]: &[Recovery; 2]) -> Self {
        let of = |direction: &Direction| if a.is_of(&direction.to) { a } else { b };
        let told = |direction: &Direction| {
            let told = |_| Told { errors: 0, stall: Stall::new(args, of(direction).clone()) };
            direction.queues.iter().map(told).collect()
        };
        let link =
            |direction: &Direction| LinkWatch::new(direction.to.clone(), args, of(direction)).of_forward();
        let links = forward.directions().iter().map(link).collect();
        let sending = forward.directions().iter().map(told).collect();
        let way = |direction: &Direction| Overload::new(format!("{} to {}", direction.from, direction.to));
        let overloads = forward.directions().iter().map(way).collect();
        Self { links, sending, overloads, lines: Lines::default() }
    }

    /// Prints news of the ends that frames leave by and arrive at. Returns the error of a device that is given up.
    pub(super) fn look(&mut self, forward: &Forward) -> Option<String> {
        let mut given_up = None;
        for (direction, overload) in forward.directions().iter().zip(&mut self.overloads) {
            overload.look(|| (sum(&direction.queues, |all| all.sent.get()), direction.drops()));
        }
        for ((direction, told), link) in
            forward.directions().iter().zip(&mut self.sending).zip(&mut self.links)
        {
            let dropped = || Packets::Leaving(sum(&direction.queues, dropped));
            let errors = sum(&direction.queues, |all| all.device_errors.get());
            given_up = link.look(&direction.queues, errors, dropped, &mut self.lines).or(given_up);
            for (queue, told) in direction.queues.iter().zip(told) {
                let news = told.news(queue.counters());
                news.iter().for_each(|line| self.lines.tell(line));
                given_up = told.stall.look(&direction.to, queue, link).or(given_up);
            }
            let arriving = direction.receivers.iter().filter_map(RxQueue::take_error);
            arriving.for_each(|error| self.lines.tell(&error.to_string()));
        }
        given_up
    }

    /// Prints news once all is over, without the error that ended it and the errors that the summary ends with.
    pub(super) fn look_back(&mut self, summaries: &[Summary], lost: Option<&String>) {
        for (summary, told) in summaries.iter().zip(&mut self.sending) {
            for (queue, told) in summary.queues.iter().zip(told) {
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
