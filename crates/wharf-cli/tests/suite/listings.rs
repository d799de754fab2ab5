//! `wharf devices`, `wharf route get` and `wharf explain`.

use crate::common::wharf;
use serde_json::Value;
use std::process::Command;

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
fn interfaces_are_listed_with_the_devices_that_use_them() {
    let listing = wharf(&["devices", "--json"]).good_json();
    let interfaces = listing["interfaces"].as_array().unwrap();
    let lo = interfaces.iter().find(|interface| interface["name"] == "lo").unwrap();
    assert_eq!(lo["devices"], serde_json::json!(["packet", "xdp"]), "{lo}");
    assert!(
        lo["up"].is_boolean() && lo["carrier"].is_boolean() && lo["mtu_bytes"].as_u64() > Some(0),
        "{lo}"
    );
    let table = wharf(&["devices"]).stdout;
    let [own, kinds] = ["packet:lo, xdp:lo", "How they are written"].map(|text| table.find(text).unwrap());
    assert!(own < kinds, "what the reader has comes first: {table}");
    let hint = wharf(&["send", "--to", "lo", "--count", "1"]);
    assert_eq!(hint.code, Some(2));
    assert!(hint.line().contains("lo is an interface: packet:lo or xdp:lo"), "{hint:?}");
}

#[test]
fn each_kind_has_a_page_with_its_keys() {
    let listing = wharf(&["devices", "--json"]).good_json();
    for device in listing["devices"].as_array().unwrap() {
        let name = device["name"].as_str().unwrap();
        let one = wharf(&["devices", name, "--json"]).good_json();
        assert_eq!(one["devices"], serde_json::json!([device]));
        let page = wharf(&["devices", name]).stdout;
        assert!(page.contains(device["spec"].as_str().unwrap()), "{page}");
        for key in device["keys"].as_array().unwrap() {
            for text in ["key", "values", "default", "direction", "meaning", "when"] {
                assert!(key[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {key}");
            }
            let (key, spec) = (key["key"].as_str().unwrap(), device["spec"].as_str().unwrap());
            let is_row = |line: &str| line.split_whitespace().next() == Some(key);
            assert!(page.lines().any(is_row) && spec.contains(key), "{key}: {page}");
        }
    }
    let unknown = wharf(&["devices", "ether"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.line().contains("no kind of device; there are null, wire"), "{unknown:?}");
}

#[test]
fn words_are_explained_and_unknown_ones_get_the_nearest() {
    for (word, says) in [
        (&["fill-ring-empty"][..], "--frames"),
        (&["requeues"], "none was lost"),
        (&["senders'", "waits"], "back-pressure"),
        (&["packets_per_doorbell"], "Higher costs less"),
    ] {
        let told = wharf(&[&["explain"], word].concat());
        assert!(told.code == Some(0) && told.stdout.contains(says), "{told:?}");
    }
    let all = wharf(&["explain", "--json"]).good_json();
    let (reasons, rows) = (all["reasons"].as_array().unwrap(), all["rows"].as_array().unwrap());
    assert!(reasons.len() > 40 && rows.len() > 10, "{all}");
    let table = wharf(&["explain"]).stdout;
    assert!(reasons.iter().all(|reason| table.contains(reason["word"].as_str().unwrap())), "{table}");
    let unknown = wharf(&["explain", "ringfull"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.line().contains("nearest is \"ring-full\""), "{unknown:?}");
}

/// Inside a user namespace the kernel loads no program, whatever capabilities the process has there.
#[test]
fn verdict_on_xdp_in_a_user_namespace_is_that_of_receiving() {
    let inside = |args: &str| {
        let script = format!("ip link set lo up && exec {} {args}", env!("CARGO_BIN_EXE_wharf"));
        Command::new("unshare").args(["-Urn", "sh", "-c", &script]).output().unwrap()
    };
    let listing = inside("devices xdp --json");
    if !listing.status.success() {
        println!("skipped: no user namespaces here: {listing:?}");
        return;
    }
    let listing: Value = serde_json::from_slice(&listing.stdout).unwrap();
    let received = inside("receive --from xdp:lo --seconds 0.1");
    assert_eq!(listing["devices"][0]["ready"], received.status.success(), "{listing} {received:?}");
    assert!(listing["devices"][0]["lacking"][0]["what"].as_str().unwrap().contains("CAP_BPF"), "{listing}");
}

/// Each row of a summary, and of `wharf show`, is a word that `wharf explain` knows.
#[test]
fn every_row_is_explained() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap");
    let from_sample = format!("pcap:{sample}");
    let tables = [
        wharf(&[
            "send", "--size", "60", "--count", "2000", "--rate", "50kpps", "--qdisc", "fq_codel", "--to",
            "wire",
        ]),
        wharf(&["send", "--size", "60", "--count", "2000", "--to", "null", "--queues", "2", "--flows", "20"]),
        wharf(&[
            "send",
            "--pcap",
            sample,
            "--count",
            "3000",
            "--when-full",
            "drop-tail",
            "--to",
            "wire:rate=1mbit",
            "--fault",
            "error=1/10",
        ]),
        wharf(&["receive", "--from", &from_sample]),
        wharf(&["forward", &from_sample, "null", "--rate", "100mbit", "--qdisc", "prio"]),
    ];
    let mut rows: Vec<String> = tables.iter().flat_map(|done| rows_of(&done.stdout)).collect();
    rows.extend(
        [
            "failed",
            "backlog",
            "in the device",
            "byte limit",
            "waited",
            "lately",
            "doorbells",
            "settings",
            "by queue",
        ]
        .map(String::from),
    );
    rows.sort_unstable();
    rows.dedup();
    let unknown: Vec<&String> = rows.iter().filter(|row| wharf(&["explain", row]).code != Some(0)).collect();
    assert!(rows.len() > 30 && unknown.is_empty(), "{unknown:?} of {rows:?}");
}

/// Returns the names in the first column of a summary: what stands before two blanks, up to the verdict.
fn rows_of(table: &str) -> Vec<String> {
    let blocks: Vec<&str> = table.split("\n\n").collect();
    let rows = blocks.get(1).into_iter().flat_map(|block| block.lines());
    let named = rows.filter(|row| !row.starts_with(' ')).filter_map(|row| row.split_once("  "));
    named.map(|(name, _)| name.trim().to_string()).collect()
}

#[test]
fn a_next_hop_is_shown_with_what_led_to_it() {
    let found =
        wharf(&["route", "get", "127.0.0.9", "mark", "0x7", "ipproto", "udp", "dport", "53", "--json"]);
    let found = found.good_json();
    assert_eq!((&found["kind"], &found["interface"]), (&"local".into(), &"lo".into()), "{found}");
    assert_eq!((&found["table"], &found["prefix"]), (&255.into(), &"127.0.0.0/8".into()), "{found}");
    let text = wharf(&["route", "get", "127.0.0.9"]);
    assert!(text.stdout.contains("why       rule 0, table local, 127.0.0.0/8"), "{text:?}");
}
