//! `wharf devices` and `wharf bench path`.

mod common;

use common::wharf;
use serde_json::Value;

#[test]
fn every_device_is_listed_with_its_lacking_requirements() {
    let listing = wharf(&["devices", "--json"]).good_json();
    let devices = listing["devices"].as_array().unwrap();
    let ready: Vec<&str> = devices
        .iter()
        .filter(|device| device["ready"] == true)
        .map(|device| device["name"].as_str().unwrap())
        .collect();
    for name in ["null", "wire", "pcap"] {
        assert!(ready.contains(&name), "{name}: {listing}");
    }
    for device in devices {
        let lacking = device["lacking"].as_array().unwrap();
        assert!(lacking.iter().all(|lack| lack["what"].is_string() && lack["mend"].is_string()), "{device}");
        assert!(
            device["built"].is_boolean() && device["spec"].is_string() && device["needs"].is_string(),
            "{device}"
        );
    }
    let table = wharf(&["devices"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    assert!(
        devices.iter().all(|device| table.stdout.contains(device["spec"].as_str().unwrap())),
        "{}",
        table.stdout
    );
}

#[test]
fn the_bench_has_a_row_for_each_case() {
    let args =
        ["bench", "path", "--cores", "1", "--bursts", "1,32", "--direct", "--seconds", "0.3", "--json"];
    let run = wharf(&args).good_json();
    let rows = run["rows"].as_array().unwrap();
    let kinds: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["kind"].as_str().unwrap(), row["burst"].as_u64().unwrap())).collect();
    assert_eq!(kinds, [("lane", 1), ("lane", 32), ("direct", 1), ("direct", 32)]);
    for row in rows {
        assert_eq!((&row["cores"], &row["senders"]), (&Value::from(1), &Value::from(1)), "{row}");
        assert!(
            row["mpps"].as_f64() > Some(0.0) && row["packets_per_doorbell"].as_f64() > Some(0.0),
            "{row}"
        );
        for stage in ["alloc", "fill", "send", "complete"] {
            assert!(row["cycles"][stage].as_f64() >= Some(0.0), "{stage}: {row}");
        }
    }
}

#[test]
fn the_bench_shares_the_path_among_senders() {
    let run = wharf(&[
        "bench",
        "path",
        "--cores",
        "1",
        "--senders",
        "4",
        "--bursts",
        "8",
        "--seconds",
        "0.05",
        "--json",
    ]);
    let row = run.good_json()["rows"][0].clone();
    assert_eq!((&row["senders"], &row["cycles"]), (&Value::from(4), &Value::Null), "{row}");
    let table = wharf(&["bench", "path", "--cores", "1", "--bursts", "8", "--seconds", "0.05"]);
    assert!(table.stdout.contains("Mpps") && table.stdout.contains("complete"), "{}", table.stdout);
}
