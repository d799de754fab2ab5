//! Every line of the traces recorded from the kernel's algorithm agrees, wherever the counters
//! start.

use std::fmt::Write as _;
use std::time::Duration;

use wharf_core::bql::Bql;

const HOLD: Duration = Duration::from_millis(1000);

/// One line: an operation and what limit and available are after it.
struct Line {
    op: u8,
    value: u32,
    limit_bytes: u32,
    available_bytes: i32,
}

fn parse(csv: &str) -> Vec<Line> {
    let lines = csv.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(parse_line).collect()
}

fn parse_line(line: &str) -> Line {
    let fields: Vec<&str> = line.split(',').collect();
    let [op, value, limit, available] = fields[..] else {
        panic!("four fields expected: {line}");
    };
    Line {
        op: op.as_bytes()[0],
        value: value.parse().expect("value"),
        limit_bytes: limit.parse().expect("limit"),
        available_bytes: available.parse().expect("available"),
    }
}

fn apply(bql: &mut Bql, now: &mut Duration, line: &Line) {
    match line.op {
        b'q' => bql.queued(line.value),
        b'c' => bql.completed(line.value, *now).expect("the trace completes what it queued"),
        b't' => *now += Duration::from_millis(line.value.into()),
        b'n' => bql.set_min(line.value),
        b'x' => bql.set_max(line.value),
        op => panic!("unknown operation {}", char::from(op)),
    }
}

/// Replays a trace and describes the lines that disagree.
fn disagreements(mut bql: Bql, origin: Duration, lines: &[Line]) -> String {
    let mut report = String::new();
    let mut now = origin;
    bql.reset(now);
    for (number, line) in lines.iter().enumerate() {
        apply(&mut bql, &mut now, line);
        let (limit, available) = (bql.limit(), bql.available());
        if (limit, available) != (line.limit_bytes, line.available_bytes) {
            let want = (line.limit_bytes, line.available_bytes);
            writeln!(report, "operation {number}: {:?}, not {want:?}", (limit, available)).unwrap();
        }
    }
    report
}

fn check(csv: &str, least_lines: usize) {
    let lines = parse(csv);
    assert!(lines.len() >= least_lines, "only {} lines", lines.len());
    assert_eq!(disagreements(Bql::new(HOLD), Duration::ZERO, &lines), "");
    // Neither where the counters start nor where the clock does may matter.
    let far = Duration::from_nanos(u64::MAX) - Duration::from_millis(1500);
    for before_wrap in [1, 1514, 65_536, 1_000_000, 1 << 28, 1 << 31] {
        let bql = Bql::start_at(HOLD, 0u32.wrapping_sub(before_wrap));
        assert_eq!(disagreements(bql, far, &lines), "", "{before_wrap} before the wrap");
    }
}

#[test]
fn steady() {
    check(include_str!("../data/dql/steady.csv"), 1200);
}

#[test]
fn line_rate() {
    check(include_str!("../data/dql/line_rate.csv"), 1400);
}

#[test]
fn bursts() {
    check(include_str!("../data/dql/bursts.csv"), 800);
}

#[test]
fn gso_mix() {
    check(include_str!("../data/dql/gso_mix.csv"), 1300);
}

#[test]
fn shrink() {
    check(include_str!("../data/dql/shrink.csv"), 24_000);
}

#[test]
fn bounded() {
    check(include_str!("../data/dql/bounded.csv"), 1400);
}

#[test]
fn wrap() {
    check(include_str!("../data/dql/wrap.csv"), 3000);
}
