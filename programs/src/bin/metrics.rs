//! Metrics as text for Prometheus, without a web server: sends packets by a path, then prints all that the path counts.
//! `metrics SPEC PACKETS`: `metrics xdp:eth0 10000`.
//!
//! - One walk shows pool, queue, senders and pollers, each value with its name, help, unit and labels.
//! - Prometheus wants the samples of one name together, so they are sorted by name.
//! - The walk makes the program no owner of the queue, and pauses nobody: it may run while packets leave.

use std::collections::BTreeMap;
use std::time::Duration;
use wharf::metrics::MetricKind;
use wharf::{Direction, Port};

type Error = Box<dyn std::error::Error>;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, packets] = &arguments[..] else { return Err("usage: metrics SPEC PACKETS".into()) };
    let path = Port::open(spec, Direction::Send)?;
    let mut sender = path.sender("example")?;
    let (mut burst, mut left) = (sender.burst(32), packets.parse::<usize>()?);
    while left > 0 {
        left -= sender.fill(&mut burst, left.min(32), 60, SECOND)?;
        burst.iter_mut().for_each(|packet| packet.fill(0xff));
        _ = sender.send(&mut burst, SECOND)?;
    }
    path.drain(SECOND);
    print!("{}", page(&path));
    Ok(())
}

/// Returns the page that a scraper would get.
fn page(path: &Port) -> String {
    let mut families = BTreeMap::<&str, String>::new();
    path.metrics().each(&mut |metric| {
        let (kind, total) = match metric.kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        };
        let name = format!("{}{total}", metric.name);
        let text = families.entry(metric.name).or_insert_with(|| {
            format!("# HELP {name} {} ({})\n# TYPE {name} {kind}\n", metric.help, metric.unit)
        });
        let labels: Vec<_> =
            metric.labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
        *text += &format!("{name}{{{}}} {}\n", labels.join(","), metric.value);
    });
    families.into_values().collect()
}
