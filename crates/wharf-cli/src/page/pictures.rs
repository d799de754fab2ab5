//! The pictures of a run over time.

use super::samples::{Reading, Sample, Samples, Spread};
use wharf_page::picture::{Axis, Chart, Line, Scale};

/// Most points of a line: more are not told apart.
const POINTS_MAX: usize = 500;

/// Shortest time between two samples that a rate is made of.
const LEAST_SECONDS: f64 = 0.02;

/// A picture before its unit is chosen: lines, the quantity, its units from the smallest on, and its caption.
struct Sketch {
    title: &'static str,
    quantity: &'static str,
    units: &'static [(f64, &'static str)],
    caption: &'static str,
    lines: Vec<Line>,
}

const PER_SECOND: &[(f64, &str)] = &[(1.0, "pps"), (1e3, "kpps"), (1e6, "Mpps")];
const BITS: &[(f64, &str)] = &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")];
const PACKETS: &[(f64, &str)] = &[(1.0, "packets")];
const BYTES: &[(f64, &str)] = &[(1.0, "bytes"), (1e3, "kB"), (1e6, "MB")];
const TIMES: &[(f64, &str)] = &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];

/// Returns the pictures that the samples are good for, each with its caption.
pub(super) fn charts(samples: &Samples) -> Vec<(Chart, String)> {
    let sketches = [
        Sketch {
            title: "Packets a second",
            quantity: "rate",
            units: PER_SECOND,
            caption: "Packets that the device has reported as sent, or that were received.",
            lines: rates(samples, &|reading| Some(reading.packets)),
        },
        Sketch {
            title: "Bits a second",
            quantity: "rate",
            units: BITS,
            caption: "Bits of those frames, without preamble, gap and check sequence.",
            lines: rates(samples, &|reading| Some(reading.bytes * 8)),
        },
        Sketch {
            title: "Packets that wait",
            quantity: "queue",
            units: PACKETS,
            caption: "Packets in the queueing discipline and in the device.",
            lines: waiting(samples),
        },
        Sketch {
            title: "Byte queue limit",
            quantity: "limit",
            units: BYTES,
            caption: "The bytes that the device may have in flight, as the queue has learnt.",
            lines: not_zero(lines(samples, |reading| Some((String::new(), reading.limit_bytes? as f64)))),
        },
        Sketch {
            title: "Queue delay, 99th percentile",
            quantity: "delay",
            units: TIMES,
            caption: "The time that packets waited in the discipline since the sample before, by band.",
            lines: delays(samples),
        },
        Sketch {
            title: "Drops by reason",
            quantity: "drops",
            units: PER_SECOND,
            caption: "Packets dropped a second; wharf explain REASON tells what happened and what to do.",
            lines: drops(samples),
        },
    ];
    // All pictures have the same time below.
    let end = samples.runs().filter_map(|run| Some(run.last()?.at)).fold(0.0, f64::max);
    let drawn = sketches.into_iter().filter(|sketch| !sketch.lines.is_empty());
    drawn.map(|sketch| sketch.chart(end)).chain(spread(samples)).collect()
}

/// Returns the picture of the delays of whole runs, over each other: the part of the packets that had at most a delay. Delays that differ
/// much are drawn as powers of ten.
fn spread(samples: &Samples) -> Option<(Chart, String)> {
    let us = |ns: u64| ns as f64 / 1e3;
    let all = || samples.spreads.iter().flat_map(|spread| &spread.quantiles_ns).map(|&(_, ns)| us(ns));
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    // A tenth of a microsecond stands for less.
    let is_wide = most > 20.0 * least.max(0.1);
    let x = |ns: u64| if is_wide { us(ns).max(0.1).log10() } else { us(ns) };
    let line = |spread: &Spread| Line {
        name: spread.name.clone(),
        points: spread.quantiles_ns.iter().map(|&(share, ns)| (x(ns), share * 100.0)).collect(),
        dashed: false,
    };
    let lines: Vec<Line> = samples.spreads.iter().map(line).collect();
    let scale = if is_wide { Scale::PowersOf(10) } else { Scale::FromZero(most) };
    let x = Axis { name: "delay, us".into(), scale };
    let chart = Chart { title: "Delays".into(), x, y: Axis::from_zero("packets, %"), lines };
    (most > 0.0).then(|| (chart, "The part of all packets that had at most this delay.".into()))
}

impl Sketch {
    /// Returns the picture in the unit in which the highest figure is short.
    fn chart(mut self, end: f64) -> (Chart, String) {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let most = points.map(|point| point.1).fold(0.0, f64::max);
        let fitting = self.units.iter().rev().find(|unit| most >= unit.0);
        let &(scale, unit) = fitting.unwrap_or(&self.units[0]);
        self.lines.iter_mut().flat_map(|line| &mut line.points).for_each(|point| point.1 /= scale);
        let name = format!("{}, {unit}", self.quantity);
        // Delays of bands differ by orders of magnitude.
        let y = if self.quantity == "delay" { Axis::values(&name) } else { Axis::from_zero(&name) };
        let x = Axis { name: "time, s".into(), scale: Scale::FromZero(end) };
        let chart = Chart { title: self.title.into(), x, y, lines: self.lines };
        (chart, self.caption.into())
    }
}

/// Returns the samples of a run that are drawn, thinned evenly.
fn thinned(samples: &[Sample]) -> Vec<&Sample> {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    samples.iter().rev().step_by(step).rev().collect()
}

/// Adds a point to the line of this name.
fn add(lines: &mut Vec<Line>, name: &str, point: (f64, f64)) {
    match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name: name.into(), points: vec![point], dashed: false }),
    }
}

/// Returns lines with at least two points.
fn seen(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| line.points.len() > 1);
    lines
}

/// Returns lines that are not 0 all the time.
fn not_zero(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| line.points.iter().any(|point| point.1 > 0.0));
    lines
}

/// Returns lines for each direction, of values as they are. The name of a line is the direction's and a part.
fn lines<I: IntoIterator<Item = (String, f64)>>(samples: &Samples, of: impl Fn(&Reading) -> I) -> Vec<Line> {
    let mut all = Vec::new();
    for sample in samples.runs().flat_map(thinned) {
        for reading in &sample.readings {
            for (part, value) in of(reading) {
                add(&mut all, &format!("{}{part}", reading.name), (sample.at, value));
            }
        }
    }
    seen(all)
}

/// A reading, and the one before it in the same run.
struct Step<'a> {
    at: f64,
    /// The seconds between them; from the beginning of the run for the first.
    seconds: f64,
    before: Option<&'a Reading>,
    now: &'a Reading,
}

impl Step<'_> {
    /// Returns the point for a count that has grown from `before` to `now`.
    fn growth(&self, before: u64, now: u64) -> (f64, f64) {
        (self.at, now.saturating_sub(before) as f64 / self.seconds)
    }
}

/// Returns the steps of a run. Two samples that are all but at one time say nothing of a rate.
fn steps(run: &[Sample]) -> Vec<Step<'_>> {
    let (mut all, mut before): (Vec<Step<'_>>, Option<&Sample>) = (Vec::new(), None);
    for sample in thinned(run) {
        let seconds = sample.at - before.map_or(0.0, |before| before.at);
        if seconds < LEAST_SECONDS {
            continue;
        }
        let earlier = |name: &str| before?.readings.iter().find(|one| one.name == name);
        for now in &sample.readings {
            all.push(Step { at: sample.at, seconds, before: earlier(&now.name), now });
        }
        before = Some(sample);
    }
    all
}

/// Returns the growth of a count in a second, a line for each direction.
fn rates(samples: &Samples, of: &dyn Fn(&Reading) -> Option<u64>) -> Vec<Line> {
    let mut all = Vec::new();
    for step in samples.runs().flat_map(steps) {
        if let (Some(before), Some(now)) = (step.before.map_or(Some(0), of), of(step.now)) {
            add(&mut all, &step.now.name, step.growth(before, now));
        }
    }
    seen(all)
}

fn waiting(samples: &Samples) -> Vec<Line> {
    let of =
        |at: usize, part: &str| lines(samples, |reading| Some((part.into(), reading.waiting?[at] as f64)));
    not_zero(of(0, ", discipline").into_iter().chain(of(1, ", device")).collect())
}

fn delays(samples: &Samples) -> Vec<Line> {
    let by_band = |delays: &[(u8, u64)]| {
        let part = |&(band, delay_ns): &(u8, u64)| (format!(", band {band}"), delay_ns as f64);
        delays.iter().map(part).collect::<Vec<_>>()
    };
    let mut all = lines(samples, |reading| by_band(&reading.delay_p99_ns));
    // A band may have its first packets after the next one.
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn drops(samples: &Samples) -> Vec<Line> {
    let mut all = Vec::new();
    for step in samples.runs().flat_map(steps) {
        for (reason, &count) in &step.now.drops {
            let before = step.before.and_then(|before| before.drops.get(reason)).copied().unwrap_or(0);
            add(&mut all, &format!("{}, {reason}", step.now.name), step.growth(before, count));
        }
    }
    not_zero(seen(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_tools::traffic::Latency;

    fn reading(packets: u64, drops: u64) -> Reading {
        Reading {
            name: "sent".into(),
            packets,
            bytes: packets * 1000,
            waiting: Some([3, 5]),
            drops: [("drop-tail".to_string(), drops)].into(),
            delay_p99_ns: vec![(0, 2_000_000)],
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_those_between_samples_in_a_unit_that_suits() {
        let mut samples = Samples::default();
        samples.begin(None);
        for (at, packets, drops) in [(0.1, 1000, 0), (0.2, 3000, 50), (0.3, 5000, 50), (0.300_1, 5000, 50)] {
            samples.add_for_test(at, vec![reading(packets, drops)]);
        }
        let mut delay = Latency::default();
        [2_000, 40_000, 900_000].iter().for_each(|&ns| delay.record(ns));
        samples.add_spread("sent", &delay);
        samples.add_spread("none", &Latency::default());
        let charts = charts(&samples);
        let titles: Vec<&str> = charts.iter().map(|(chart, _)| chart.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "Packets a second",
                "Bits a second",
                "Packets that wait",
                "Queue delay, 99th percentile",
                "Drops by reason",
                "Delays"
            ],
            "no byte limit, no picture of it"
        );
        let of = |at: usize| {
            (
                charts[at].0.y.name.as_str(),
                charts[at].0.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(0), ("rate, kpps", vec!["sent"]));
        assert_eq!(of(1).0, "rate, Mbit/s");
        assert_eq!(of(2).1, ["sent, discipline", "sent, device"]);
        assert_eq!(of(3), ("delay, ms", vec!["sent, band 0"]));
        assert_eq!(of(4), ("drops, pps", vec!["sent, drop-tail"]));
        assert_eq!(of(5), ("packets, %", vec!["sent"]));
        let (first, last) = (charts[5].0.lines[0].points[0], charts[5].0.lines[0].points[22]);
        assert!(
            (first.0 - 2e0_f64.log10()).abs() < 0.02 && last == (900_f64.log10(), 100.0),
            "{first:?}, {last:?}"
        );
        let rates: Vec<f64> = charts[0].0.lines[0].points.iter().map(|point| point.1.round()).collect();
        assert_eq!(rates, [10.0, 20.0, 20.0], "and none of two samples at one time");
    }
}
