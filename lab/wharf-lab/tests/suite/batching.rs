//! `batching` on this machine, for a few milliseconds a mode: every mode has its rows, and no frame is lost. No figure of time is
//! checked.

use wharf_devices::registry::Registry;
use wharf_devices::spec::DeviceSpec;
use wharf_lab::experiment::{LabError, Report, Request, World, run};

fn spec(text: &str) -> DeviceSpec {
    Registry::default().parse(text).unwrap()
}

fn on_host(name: &str, device: Option<&str>, set: &[&str]) -> Result<Report, LabError> {
    let request = Request {
        name: name.into(),
        set: set.iter().map(ToString::to_string).collect(),
        threads: if device.is_some() { vec![1, 3] } else { Vec::new() },
        device: device.map(spec),
        world: Some(World::Host),
        duration_ns: Some(20_000_000),
        ..Request::default()
    };
    run(&request, &mut |_| true)
}

#[test]
fn each_mode_has_its_rows_over_any_device() {
    let set = ["rounds=1", "settle_ms=5", "error_millionths=10000"];
    let device = "null";
    let report = on_host("batching", Some(device), &set).unwrap();
    for senders in [1, 3] {
        let figure = |mode: &str, metric: &str| {
            let label = format!("{device}/senders={senders}/batch={mode}");
            let row = report.rows.iter().find(|row| row.label == label && row.metric == metric);
            row.unwrap_or_else(|| panic!("{label} has no {metric}")).value
        };
        let of = |metric: &'static str| ["off", "on", "woken", "on+errors"].map(|mode| figure(mode, metric));
        assert!(of("mpps").iter().all(|&mpps| mpps > 0.0), "{device}: {:?}", of("mpps"));
        let [off, on, woken, _] = of("packets_per_doorbell");
        // A packet of which the doorbell was counted may have left after the count.
        assert!((0.9..1.1).contains(&off) && on >= 0.9 && woken >= 0.9, "{device}: {off} {on} {woken}");
        assert_eq!(of("failed").map(|failed| failed > 0.0), [false, false, false, true], "{device}");
        assert!(figure("on", "packets_per_cpu_second_of_off") > 0.0);
    }
}

#[test]
fn a_device_that_there_is_not_and_an_experiment_with_devices_of_its_own_are_one_line_each() {
    let fault = |name, device| on_host(name, Some(device), &["rounds=1"]).unwrap_err().to_string();
    assert!(fault("batching", "wire").ends_with("name a device that leads out of this process"));
    let missing = fault("batching", "pcap:/none/such.pcap");
    assert!(missing.starts_with("pcap:/none/such.pcap/senders=1/batch=off"), "{missing}");
    assert_eq!(fault("fairness", "null"), "fairness has its own devices: leave --to out");
    let request = Request { name: "batching".into(), device: Some(spec("null")), ..Request::default() };
    assert!(matches!(run(&request, &mut |_| true), Err(LabError::NotHost)));
}
