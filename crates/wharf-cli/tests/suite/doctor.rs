//! `wharf doctor`, as far as it needs no privilege; `tests/doctor.sh` has interfaces.

use crate::common::{SAMPLE, wharf};
use serde_json::{Value, json};

/// The verdicts on the first device: direction, verdict, usable.
fn verdicts(report: &Value) -> Vec<(String, String, bool)> {
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let directions = report["devices"][0]["directions"].as_array().unwrap();
    directions
        .iter()
        .map(|one| (text(&one["direction"]), text(&one["verdict"]), one["usable"] == true))
        .collect()
}

#[test]
fn a_device_that_opens_works() {
    let report = wharf(&["doctor", "null", "--json"]).good_json();
    assert_eq!(verdicts(&report), [("send".into(), "works".into(), true)]);
    let device = &report["devices"][0];
    assert_eq!(
        (&device["device"], &device["kind"], &device["usable"]),
        (&json!("null"), &json!("null"), &json!(true))
    );
    assert_eq!(
        (&device["directions"][0]["ring_frames"], &device["directions"][0]["byte_limit"]),
        (&json!(256), &json!(true))
    );
    let page = wharf(&["doctor", "null"]);
    assert_eq!(
        page.stdout.trim_end(),
        "null\n  send:    works, by a ring of 256 frames, with a byte queue limit"
    );
    assert_eq!(page.code, Some(0));
}

#[test]
fn a_direction_that_is_asked_for_decides() {
    let failed = wharf(&["doctor", "null", "--for", "receive"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.line().contains("cannot receive: null: it only sends"), "{failed:?}");
    assert!(failed.stdout.contains("receive: no: null: it only sends"), "{failed:?}");
    assert_eq!(wharf(&["doctor", "null", "--for", "send"]).code, Some(0));
}

#[test]
fn a_capture_is_never_emptied() {
    let copy = format!("{}/doctor.pcap", env!("CARGO_TARGET_TMPDIR"));
    std::fs::copy(SAMPLE, &copy).unwrap();
    let report = wharf(&["doctor", &format!("pcap:{copy}"), "--json"]).good_json();
    let want = [("send".into(), "untried".into(), true), ("receive".into(), "works".into(), true)];
    assert_eq!(verdicts(&report), want);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(SAMPLE).unwrap());
    let missing = wharf(&["doctor", "pcap:/none/such.pcap", "--no-probe", "--json"]);
    assert_eq!(missing.code, Some(1));
    let report: Value = serde_json::from_str(&missing.stdout).unwrap();
    let finding = &report["devices"][0]["findings"][0];
    assert_eq!((&finding["weight"], &finding["prevents"]), (&json!("obstacle"), &json!("both")), "{report}");
    assert!(finding["mend"].as_str().unwrap().contains("mkdir -p /none"), "{report}");
}

#[test]
fn an_interface_stands_for_each_device_that_can_use_it() {
    let read = wharf(&["doctor", "lo", "--no-probe", "--json"]);
    let report: Value = serde_json::from_str(&read.stdout).unwrap();
    let kinds: Vec<&Value> =
        report["devices"].as_array().unwrap().iter().map(|device| &device["kind"]).collect();
    assert_eq!(kinds, ["packet", "xdp"]);
    let findings = report["devices"][1]["findings"].as_array().unwrap();
    for subject in ["interface", "queues", "kernel", "memlock", "capabilities"] {
        assert!(findings.iter().any(|finding| finding["subject"] == subject), "{subject}: {report}");
    }
    let unknown = wharf(&["doctor", "no-such-interface"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.line().contains("unknown kind of device"), "{unknown:?}");
}
