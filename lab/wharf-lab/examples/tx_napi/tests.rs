//! The program runs each kind of load in every mode, for a millisecond each. A run fails if memory is missing at its end. The
//! tests check which rows there are, and no time.

use super::*;

fn run_short(only_load: u32) -> Report {
    let set = ["rounds=1", "settle_ms=1", "measure_ms=1", "pool_frames=4096"].map(String::from);
    run(&[&set[..], &[format!("only_load={only_load}")]].concat()).unwrap()
}

#[test]
fn each_kind_of_load_runs_in_every_mode_and_has_its_rows() {
    let loads = [
        (4, "tcp_stream/4096B/flows=1", "payload", 1),
        (8, "udp_stream/1B/flows=10", "payload", 0),
        (14, "tcp_rr/1B/flows=10", "round_trips", 2),
        (24, "udp_rr/4096B/flows=100", "round_trips", 0),
    ];
    for (number, load, rate, published) in loads {
        let report = run_short(number);
        let figure = |napi: &str, metric: &str| {
            let label = format!("{load}/napi={napi}");
            let row = report.rows.iter().find(|row| row.label == label && row.metric == metric);
            row.unwrap_or_else(|| panic!("{label}: no {metric}")).value
        };
        for napi in ["off", "timer", "on"] {
            assert!(figure(napi, rate) > 0.0, "{load}/napi={napi}");
            for metric in ["cpu", "interrupts", "kicks", "in_flight", "cleaned_from_receive"] {
                figure(napi, metric);
            }
        }
        assert!(figure("on", "p99_of_off") > 0.0, "{load}");
        // Two of the three modes have published figures.
        let beside: Vec<&Row> = report.rows.iter().filter(|row| row.published.is_some()).collect();
        assert_eq!(beside.len(), 2 * published, "{load}");
        assert!(beside.iter().all(|row| row.note.as_deref() == Some(ANOTHER)), "{beside:?}");
    }
}

#[test]
fn published_figures_are_those_of_the_mode_and_the_flows() {
    let load = Load::all(4096)[3];
    let rows =
        rows_of(&load, "off", Some("upstream"), &[Measurement { seconds: 1.0, ..Measurement::default() }]);
    let first = rows.unwrap().into_iter().next().map(|row| (row.label, row.published));
    assert_eq!(first, Some(("tcp_stream/4096B/flows=1/napi=off".into(), Some(28985.0))));
}
