//! `Overload`: packets that are dropped because more come than leave, or that fail. A line says so while it lasts, and another one when
//! it is over.

use crate::output::{self, grouped_on_stderr};
use crate::verdict::{OF_QUEUE, OF_RECEIVER};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two checks of the counters, some of which a device is asked for.
const EVERY: Duration = Duration::from_millis(300);
/// Time without overload after which it is over.
const CALM: Duration = Duration::from_secs(1);
/// Least time between two lines that report it.
const AGAIN: Duration = Duration::from_secs(10);
/// Fewest drops between two checks, and least share of all packets, that are overload. TCP at a bottleneck loses less.
const DROPS_MIN: u64 = 20;
const SHARE_MIN: f64 = 0.05;
/// Reasons of packets whose failure the watch over the device reports, or the end of a run.
const TOLD_ELSEWHERE: [&str; 6] = ["closed", "gone", "injected", "link-down", "lost", "peer-gone"];

/// Drops of one sort: their reasons, and what is told of them.
#[derive(Debug)]
struct Sort {
    has: fn(&str) -> bool,
    begins: &'static str,
    fate: &'static str,
    rest: &'static str,
    over: &'static str,
}

/// Drops for want of room, or because packets have waited too long.
const ROOM: Sort = Sort {
    has: is_for_room,
    begins: "more comes than leaves",
    fate: "dropped",
    rest: ", the others go on",
    over: "what comes leaves again",
};
/// Packets that the device or the kernel could not send.
const FAILURES: Sort = Sort {
    has: |reason| !is_for_room(reason) && !TOLD_ELSEWHERE.contains(&reason),
    begins: "packets fail",
    fate: "failed",
    rest: "",
    over: "packets leave again",
};

/// True for drops for want of room, or because packets have waited too long.
fn is_for_room(reason: &str) -> bool {
    OF_QUEUE.contains(&reason) || OF_RECEIVER.contains(&reason)
}

/// Watches the drops of one way that packets take.
#[derive(Debug)]
pub(crate) struct Overload {
    name: String,
    sort: Sort,
    looked: Instant,
    /// Packets that had passed, and drops by reason, at the last check.
    before: (u64, BTreeMap<String, u64>),
    spell: Option<Spell>,
    /// Time of the last line that told of overload.
    told: Option<Instant>,
}

/// A time of overload.
#[derive(Debug)]
struct Spell {
    began: Instant,
    last: Instant,
    dropped: u64,
    /// Packets that had passed at the last check with drops.
    passed: u64,
    /// A line has told of it.
    is_told: bool,
}

impl Overload {
    /// Begins the watch over packets that take the way `name`.
    pub(crate) fn new(name: String) -> Self {
        Self::of(name, ROOM)
    }

    /// Begins the watch over packets that cannot be sent by the way `name`.
    pub(crate) fn of_failures(name: String) -> Self {
        Self::of(name, FAILURES)
    }

    fn of(name: String, sort: Sort) -> Self {
        Self { name, sort, looked: Instant::now(), before: Default::default(), spell: None, told: None }
    }

    /// Prints a line on standard error when overload has begun, and when it is over. `count` returns the packets that have passed so far
    /// and the drops by reason; it is called some times a second.
    pub(crate) fn look(&mut self, count: impl FnOnce() -> (u64, BTreeMap<String, u64>)) {
        let now = Instant::now();
        if now.duration_since(self.looked) >= EVERY
            && let Some(line) = self.step(now, count())
        {
            output::warn(&format!("{}: {line}", self.name));
        }
    }

    fn step(&mut self, now: Instant, counts: (u64, BTreeMap<String, u64>)) -> Option<String> {
        let time = now.duration_since(std::mem::replace(&mut self.looked, now));
        let before = std::mem::replace(&mut self.before, counts);
        let passed = self.before.0.saturating_sub(before.0);
        let grown = |(word, count): (&String, &u64)| {
            let more = count.saturating_sub(before.1.get(word).copied().unwrap_or(0));
            (more > 0 && (self.sort.has)(word)).then(|| (word.clone(), more))
        };
        let drops: Vec<(String, u64)> = self.before.1.iter().filter_map(grown).collect();
        let dropped: u64 = drops.iter().map(|(_, count)| count).sum();
        let all = passed + dropped;
        if dropped < DROPS_MIN || (dropped as f64) < SHARE_MIN * all as f64 {
            return self.calm(now, dropped);
        }
        let spell =
            self.spell.get_or_insert(Spell { began: now, last: now, dropped: 0, passed: 0, is_told: false });
        (spell.last, spell.dropped, spell.passed) = (now, spell.dropped + dropped, self.before.0);
        if spell.is_told || self.told.is_some_and(|told| now.duration_since(told) < AGAIN) {
            return None;
        }
        (spell.is_told, self.told) = (true, Some(now));
        let (most, _) = drops.iter().max_by_key(|(_, count)| count)?;
        let reasons: Vec<String> =
            drops.iter().map(|(word, count)| format!("{word} {}", grouped_on_stderr(*count))).collect();
        let (dropped, all, reasons) =
            (grouped_on_stderr(dropped), grouped_on_stderr(all), reasons.join(", "));
        let Sort { begins, fate, rest, .. } = self.sort;
        let rest = if passed > 0 { rest } else { "" };
        let time = time.as_secs_f64();
        let some = format!("{dropped} of {all} packets {fate} in {time:.1} s ({reasons})");
        Some(format!("{begins}: {some}{rest}; `wharf explain {most}`"))
    }

    /// Ends the overload once there has been none for a while.
    fn calm(&mut self, now: Instant, dropped: u64) -> Option<String> {
        let spell = self.spell.as_mut()?;
        spell.dropped += dropped;
        if now.duration_since(spell.last) < CALM {
            return None;
        }
        let Spell { began, last, dropped, passed, is_told } = self.spell.take()?;
        let time = (last.duration_since(began) + EVERY).as_secs_f64();
        let Sort { fate, over, .. } = self.sort;
        let over = if self.before.0 > passed { over } else { "no more comes" };
        is_told.then(|| format!("{over}, after {time:.1} s, {} {fate}", grouped_on_stderr(dropped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, drops: &[(&str, u64)]) -> (u64, BTreeMap<String, u64>) {
        (passed, drops.iter().map(|(word, count)| ((*word).to_string(), *count)).collect())
    }

    fn watch() -> (Overload, impl Fn(u64) -> Instant) {
        let (watch, began) = (Overload::new("a to b".into()), Instant::now());
        (watch, move |ms| began + Duration::from_millis(ms))
    }

    #[test]
    fn overload_is_told_once_and_so_is_its_end() {
        let (mut watch, at) = watch();
        assert_eq!(watch.step(at(300), counts(10_000, &[])), None);
        let line = watch.step(at(600), counts(15_000, &[("ring-full", 4000), ("codel", 1000)])).unwrap();
        assert!(line.contains("5000 of 10000 packets dropped in 0.3 s"), "{line}");
        assert!(
            line.contains("(codel 1000, ring-full 4000)") && line.ends_with("`wharf explain ring-full`"),
            "{line}"
        );
        assert_eq!(watch.step(at(900), counts(20_000, &[("ring-full", 9000), ("codel", 1000)])), None);
        assert_eq!(watch.step(at(1500), counts(25_000, &[("ring-full", 9005), ("codel", 1000)])), None);
        let line = watch.step(at(2000), counts(30_000, &[("ring-full", 9005), ("codel", 1000)])).unwrap();
        assert_eq!(line, "what comes leaves again, after 0.6 s, 10005 dropped");
        assert_eq!(watch.step(at(3000), counts(40_000, &[("ring-full", 9005), ("codel", 1000)])), None);
    }

    #[test]
    fn few_drops_and_those_for_other_reasons_are_none() {
        let (mut watch, at) = watch();
        assert_eq!(watch.step(at(300), counts(0, &[("codel", 19)])), None);
        assert_eq!(watch.step(at(600), counts(10_000, &[("codel", 400)])), None);
        assert_eq!(watch.step(at(900), counts(10_000, &[("codel", 400), ("link-down", 90_000)])), None);
        assert!(watch.spell.is_none());
        let line = watch.step(at(1200), counts(10_000, &[("codel", 400), ("flow-full", 900)])).unwrap();
        assert!(line.contains("(flow-full 900)"), "{line}");
    }

    #[test]
    fn failures_are_told_apart_from_drops_for_want_of_room() {
        let (mut watch, at) = (Overload::of_failures("a".into()), watch().1);
        let line = watch.step(at(300), counts(0, &[("unreachable", 300), ("ring-full", 900)])).unwrap();
        assert_eq!(
            line,
            "packets fail: 300 of 300 packets failed in 0.3 s (unreachable 300); `wharf explain unreachable`"
        );
        assert_eq!(
            watch.step(at(1500), counts(10_000, &[("unreachable", 300), ("lost", 9000)])).unwrap(),
            "packets leave again, after 0.3 s, 300 failed"
        );
    }

    #[test]
    fn overload_is_not_said_to_have_left_while_nothing_leaves() {
        let (mut watch, at) = watch();
        let line = watch.step(at(300), counts(0, &[("overlimit", 256)])).unwrap();
        assert!(line.contains("256 of 256 packets dropped") && !line.contains("the others go on"), "{line}");
        let line = watch.step(at(1500), counts(0, &[("overlimit", 256)])).unwrap();
        assert_eq!(line, "no more comes, after 0.3 s, 256 dropped");
    }

    #[test]
    fn overload_that_comes_and_goes_is_told_every_ten_seconds() {
        let (mut watch, at) = watch();
        let mut lines = 0;
        for round in 0..10u64 {
            let drops = counts(0, &[("ring-full", 1000 * (round + 1))]);
            lines += usize::from(watch.step(at(3000 * round), drops.clone()).is_some());
            lines += usize::from(watch.step(at(3000 * round + 1500), drops).is_some());
        }
        assert_eq!(lines, 6, "three spells, each with its end");
    }
}
