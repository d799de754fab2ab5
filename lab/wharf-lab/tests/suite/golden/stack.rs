//! `hol`, `bql` and `veth`.

use super::{RowKind, assert_golden, assert_residuals_are_said, at_both_ends, row, whole};

/// All rows of `hol`, a short time.
#[test]
fn short_hol_equals_golden() {
    let set = ["runs=2", "10g_settle_ns=20000000", "10g_measure_ns=20000000", "interval_ns=10000000"];
    let set: Vec<&str> =
        set.into_iter().chain(["100m_settle_ns=100000000", "100m_measure_ns=100000000"]).collect();
    assert_golden("hol-short.txt", &whole("hol", &set, 7));
}

/// With the parameters of the file: the fitted delay within 1 %, the predicted ones within 15 %, requeues
/// with GSO within a factor of 3, and the spread on 10 Gbit/s smaller with bulks. Figures not reproduced have
/// a note.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn hol_equals_golden_and_is_near_the_published() {
    let report = whole("hol", &[], 1);
    assert_golden("hol.txt", &report);
    assert_residuals_are_said(&report);
    for row in &report.rows {
        let Some(published) = row.published else { continue };
        let tolerance = match (row.metric, row.kind) {
            (_, RowKind::Fitted) => 0.01,
            ("delay_least" | "delay_most" | "delay_mean", _) => 0.15,
            ("requeues", _) if row.label.contains("gso") => 2.0,
            _ => continue,
        };
        assert!((row.value - published).abs() <= tolerance * published, "{row:?}");
    }
    let requeues = |label: &str| row(&report, label, "requeues").value;
    assert!(requeues("10g/tso/bulk=on/window=short") > 100.0 + requeues("10g/tso/bulk=on"));
    let spread = |label: &str| row(&report, label, "delay_spread").value;
    assert!(spread("10g/gso/bulk=on") < 0.8 * spread("10g/gso/bulk=off"));
}

/// All rows of `bql`, short phases.
#[test]
fn short_bql_equals_golden() {
    let set = ["phase_ns=20000000", "hold_ns=5000000", "probe_every_ns=500000"];
    assert_golden("bql-short.txt", &whole("bql", &set, 7));
}

/// The limit follows the wire both ways and keeps it busy; without it a priority packet waits for the ring.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn bql_equals_golden_and_keeps_delays_short() {
    let report = whole("bql", &[], 1);
    assert_golden("bql.txt", &report);
    let value = |label: &str, metric: &str| row(&report, label, metric).value;
    for phase in ["1:10gbit", "2:1gbit", "3:100mbit", "4:1gbit", "5:10gbit"] {
        let [on, off] = ["on", "off"].map(|limit| format!("bql={limit}/{phase}"));
        assert!(value(&on, "wire_used") > 99.9, "{phase}");
        assert!(value(&on, "delay_p50") * 5.0 < value(&off, "delay_p50"), "{phase}");
    }
    let limit = |phase: &str| value(&format!("bql=on/{phase}"), "limit_at_end");
    assert!(limit("3:100mbit") < limit("2:1gbit") && limit("2:1gbit") < limit("1:10gbit"));
    assert!((limit("5:10gbit") / limit("1:10gbit") - 1.0).abs() < 0.1);
}

/// All rows of `veth`, a short time.
#[test]
fn short_veth_equals_golden() {
    let set = ["settle_ns=20000000", "measure_ns=100000000", "hold_ns=5000000", "probe_every_ns=2000000"];
    assert_golden("veth-short.txt", &whole("veth", &set, 7));
}

/// The limit shortens a ping's wait to a tenth and costs the slow consumer nothing. Completed packet by
/// packet it falls to two packets and the fast consumer pays; once per poll it grows to two polls; gathered
/// by time both are well.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn veth_equals_golden_and_gathers_by_time() {
    let report = whole("veth", &[], 1);
    assert_golden("veth.txt", &report);
    assert_residuals_are_said(&report);
    let value = |label: &str, metric: &str| row(&report, label, metric).value;
    let slow = |limit: &str, metric: &str| value(&format!("rules=13000/limit={limit}"), metric);
    for limit in ["packet", "gather"] {
        assert!(slow(limit, "ping_mean") < 0.1 * slow("off", "ping_mean"), "{limit}");
        assert!(slow(limit, "delivered") > 0.98 * slow("off", "delivered"), "{limit}");
        assert!(slow(limit, "pings_lost") < 0.5, "{limit}");
    }
    let fast = |limit: &str| value(&format!("rules=0/limit={limit}"), "delivered");
    assert!(fast("packet") < 0.92 * fast("off") && fast("gather") > 0.98 * fast("off"));
    assert!(value("floods=2/unit=bytes", "ping_of_one_flood") > 2.0);
    assert!(value("floods=2/unit=packets", "ping_of_one_flood") < 1.2);
}

/// Each parameter of `hol`, `bql` and `veth` at both ends of its range: all that enters leaves.
#[test]
fn extreme_settings_break_no_rule_of_linux_tcp_host() {
    let hol = [
        "runs=1",
        "10g_settle_ns=2000000",
        "10g_measure_ns=4000000",
        "100m_settle_ns=2000000",
        "100m_measure_ns=4000000",
    ];
    let veth = ["settle_ns=2000000", "measure_ns=4000000"];
    let but = ["settle_ns", "measure_ns", "phase_ns", "runs"];
    for (name, base) in [("hol", &hol[..]), ("bql", &["phase_ns=2000000"]), ("veth", &veth[..])] {
        at_both_ends(name, base, &but, |key, value, report| {
            assert!(report.is_ok(), "{name} {key}={value}: {:?}", report.err());
        });
    }
}

/// Probes that come faster than the slow wire carries them fill their band, and not the memory.
#[test]
fn excess_probes_wait_within_a_band() {
    let report = whole("bql", &["phase_ns=10000000", "probe_every_ns=1000"], 3);
    assert!(!report.interrupted && report.rows.iter().all(|row| row.value.is_finite()));
}
