//! Fitted parameters fit: their neighbours do no better.

use wharf_lab::experiment::{Mark, Report, Request, RowKind, run};

/// A fitted parameter, a step larger than the difference of two seeds, and the row that it is fitted to.
struct Fit {
    experiment: &'static str,
    key: &'static str,
    step: u64,
    label: &'static str,
    metric: &'static str,
}

const ONE_PROCESS: &str = "ipoib/tcp+tcp-nodelay/processes=1";

const FITS: [Fit; 14] = [
    fit("batching", "ipoib_serve_ps", 50_000, ONE_PROCESS, "bandwidth_by_batching_most"),
    fit("bulk", "doorbell_ps", 1000, "trafgen-12/bulk=off", "mpps"),
    fit("bulk", "tcp_copy_ns", 20, "tcp-24/bulk=off", "sys"),
    fit("bulk", "tcp_send_ns", 20, "tcp-24/bulk=off", "soft"),
    fit("bulk", "tcp_ack_ns", 40, "tcp-24/bulk=off", "soft"),
    fit("hol", "round_trip_ns", 1000, "10g/gso/bulk=off", "delay_least"),
    fit("pages", "depot_page_ps", 500, "allocator", "spinning"),
    fit("pages", "send_locked_ps", 200, "send/origin", "gain_over_allocator"),
    fit("pcie", "posted_packets", 4, "xdp_tx/rx_cqe_compress=on,xdp_tx_mpwqe=off", "mpps"),
    fit("pcie", "session_ns", 150, "xdp_drop/rx_cqe_compress=on", "mpps"),
    fit("pcie", "socket_clock_khz", 50_000, "socket-1/skb_tx_mpwqe=off", "mpps"),
    fit("pcie", "sockets_tags", 1, "sockets/gen3/rate=full/skb_tx_mpwqe=off", "mpps"),
    fit("veth", "line_transfer_ns", 4, "rules=0/limit=packet", "delivered"),
    fit("veth", "send_ns", 4, "rules=0/limit=off", "delivered"),
];

const fn fit(
    experiment: &'static str, key: &'static str, step: u64, label: &'static str, metric: &'static str,
) -> Fit {
    Fit { experiment, key, step, label, metric }
}

fn report(experiment: &str, set: &[String]) -> Report {
    let request = Request { name: experiment.into(), set: set.to_vec(), seed: 1, ..Request::default() };
    run(&request, &mut |_| true).unwrap()
}

/// Returns the row's residual to the published figure, and its kind.
fn off(report: &Report, fit: &Fit) -> (f64, RowKind) {
    let is_it = |row: &&wharf_lab::experiment::Row| row.label == fit.label && row.metric == fit.metric;
    let row = report.rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {}", fit.label));
    ((row.value - row.published.unwrap()).abs(), row.kind)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn neighbours_of_fitted_parameters_do_no_better() {
    for experiment in ["batching", "bulk", "hol", "pages", "pcie", "veth"] {
        let as_in_file = report(experiment, &[]);
        let marked = as_in_file.parameters.iter().filter(|(_, one)| one.kind == Mark::Fitted);
        // A number of a machine that others share is tested where it was fitted.
        let is_of = |fit: &Fit, key: &str| fit.key == key && fit.experiment != experiment;
        let elsewhere = |key: &str| key == "doorbell_ps" && FITS.iter().any(|fit| is_of(fit, key));
        let marked: Vec<&str> = marked.map(|(key, _)| key).filter(|key| !elsewhere(key)).collect();
        let fits = || FITS.iter().filter(|fit| fit.experiment == experiment);
        let mut listed: Vec<&str> = fits().map(|fit| fit.key).collect();
        listed.sort_unstable();
        assert_eq!(listed, marked, "what is marked as fitted is tested, and the other way round");
        for fit in fits() {
            let value = as_in_file.parameters.get(fit.key).unwrap();
            let (best, kind) = off(&as_in_file, fit);
            assert_eq!(kind, RowKind::Fitted, "{}", fit.label);
            for neighbour in [value - fit.step, value + fit.step] {
                let (other, kind) = off(&report(experiment, &[format!("{}={neighbour}", fit.key)]), fit);
                assert!(best < other, "{}={neighbour} is nearer: {other}, not {best}", fit.key);
                assert_eq!(kind, RowKind::Predicted, "{}", fit.key);
            }
        }
    }
}
