//! `wharf plan`: figures, files, reports.

use crate::common::{Folder, text, wharf};
use serde_json::Value;

fn plan(args: &str) -> Value {
    let args: Vec<&str> = ["plan"].into_iter().chain(args.split_whitespace()).chain(["--json"]).collect();
    wharf(&args).good_json()
}

/// The whole answer, as it is committed: the same on every machine, in debug and release.
#[test]
fn a_plan_is_the_same_to_the_byte() {
    let done =
        wharf(&["plan", "--nic", "cx5", "--link", "gen3x16", "--imix", "--direction", "both", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/plan.json");
    if std::env::var_os("WHARF_BLESS").is_some() {
        std::fs::write(golden, &done.stdout).unwrap();
    }
    assert!(
        done.stdout == std::fs::read_to_string(golden).unwrap(),
        "see it with WHARF_BLESS=1 and git diff"
    );
}

#[test]
fn the_keys_are_those_promised() {
    let plan = plan("--nic cx5 --link gen3x16 --size 60 --cores 12");
    assert_eq!((&plan["nic"], &plan["packet_bytes"]), (&Value::from("cx5"), &Value::from(64.0)));
    assert_eq!(plan["link"], "gen3x16,mps=256,mrrs=512,rcb=64");
    assert_eq!((&plan["bus"]["to_nic_bytes"], &plan["bus"]["to_host_bytes"]), (&154.0.into(), &29.75.into()));
    assert_eq!(plan["bus"]["tlp_gbps"], 113.700_060_494);
    let parts: Vec<&str> =
        plan["limits"].as_array().unwrap().iter().map(|l| l["part"].as_str().unwrap()).collect();
    let all = [
        "wire",
        "bus_to_nic",
        "bus_to_host",
        "tags",
        "descriptor_fetch",
        "doorbells",
        "cpu",
        "memory",
        "nic",
    ];
    assert_eq!(parts, all);
    assert_eq!(plan["binding"], "nic");
    assert!(plan["confirmed_by"].is_string());
    let band = &plan["band"];
    let shares = ["least", "median", "most"].map(|share| band[share].as_f64().unwrap());
    assert!(shares.is_sorted() && shares[0] > 0.0 && band["points"].as_u64().unwrap() > 0, "{band}");
    for feature in plan["features"].as_array().unwrap() {
        assert!(feature["name"].is_string() && feature["mpps_with"].is_f64(), "{feature}");
    }
    let directions: Vec<&str> =
        plan["directions"].as_array().unwrap().iter().map(|one| one["direction"].as_str().unwrap()).collect();
    assert_eq!(directions, ["tx", "rx", "both"]);
    assert!(plan["figures"].as_array().unwrap().iter().all(|figure| figure["source"].is_string()));
    assert_eq!(plan["sweep"], Value::Array(Vec::new()));
}

#[test]
fn each_option_changes_its_figures() {
    let bytes = |args: &str| plan(args)["bus"]["to_nic_bytes"].as_f64().unwrap();
    assert_eq!(bytes("--nic cx5 --feature xmit_more=off"), 200.0);
    assert_eq!(bytes("--nic ixgbe --feature xmit_more=off"), 129.5);
    for list in ["xmit_more=off,head_write_back=on", "xmit_more=off head_write_back=on"] {
        assert_eq!(
            plan(&format!("--nic ixgbe --feature {list}"))["bus"]["to_host_bytes"],
            24.0 + 1.2 + 0.875,
            "{list}"
        );
    }
    assert_eq!(bytes("--nic ixgbe --size 296 --link gen3x16,mps=128"), 0.875 + 740.0 / 40.0 + 360.0);
    assert_eq!(plan("--nic ixgbe --direction rx")["bus"]["to_host_bytes"], 152.0);
    let swept = plan("--nic ixgbe --sweep size=60..1514");
    assert_eq!(swept["sweep"].as_array().unwrap().len(), 1455);
    assert_eq!(swept["sweep"][0]["packet_bytes"], 64);
    let set = plan(
        "--nic cx5 --direction rx --feature rx_cqe_compress=on --feature rx_striding_rq=on --set rx.completion.every=8",
    );
    assert_eq!((&set["bus"]["to_nic_bytes"], &set["bus"]["to_host_bytes"]), (&0.5.into(), &110.0.into()));
    let target = plan("--nic cx5 --target 200gbit");
    assert_eq!(target["target"]["reached"], false);
    assert_eq!(target["target"]["stopped_by"], serde_json::json!(["nic", "bus_to_nic", "wire", "cpu"]));
}

#[test]
fn people_get_a_table_and_an_answer() {
    let done = wharf(&["plan", "--target", "200gbit", "--sweep", "size=60..1514,step=64"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    for words in [
        "bus towards the NIC",
        "both at once",
        "xdp_tx_mpwqe",
        "Can it send 200 Gbit/s of packets of 60 bytes (64 with check sequence)",
        "1514",
        "13 653",
        "no effect here: page_pool, rx_cqe_compress, rx_striding_rq",
        "Commands that raise it (driver mlx5_core):",
        "ethtool --set-priv-flags IF xdp_tx_mpwqe on",
    ] {
        assert!(done.stdout.contains(words), "{words}: {}", done.stdout);
    }
    let estimate = wharf(&["plan", "--link", "gen6x16"]);
    assert!(estimate.stdout.contains("an estimate"), "{}", estimate.stdout);
}

#[test]
fn a_file_describes_a_nic() {
    let folder = Folder::new();
    let ixgbe = include_str!("../../../wharf-plan/nics/ixgbe.toml");
    let mine = format!("{}\n[plan]\nsize = 128\ncores = 3\n", ixgbe.replacen("\"ixgbe\"", "\"mine\"", 1));
    let file = folder.file("mine.toml", mine.as_bytes());
    let own = plan(&format!("--nic {file}"));
    assert_eq!(
        (&own["nic"], &own["packet_bytes"], &own["cores"]),
        (&"mine".into(), &128.0.into(), &3.into())
    );
    assert_eq!(plan(&format!("--nic {file} --size 60 --cores 5"))["cores"], 5);
    let wrong = [
        ("lanes = 8", "lanes = 3", "link.lanes: 3 cannot be: one of 1, 2, 4, 8, 12, 16, 32"),
        ("size = 128", "size = 0", "plan.size: 0 cannot be: a whole number from 64 to 16384"),
        ("cores = 3", "colours = 3", "plan.colours: unknown key; there are size, cores"),
        ("[link]", "[link", "line "),
    ];
    for (from, to, told) in wrong {
        let file = folder.file("wrong.toml", mine.replacen(from, to, 1).as_bytes());
        let done = wharf(&["plan", "--nic", &file]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
        assert!(done.line().contains(&format!("{file}: {told}")), "{done:?}");
    }
    let bytes = folder.file("binary.toml", &[0xff, 0xfe, 0]);
    for (file, told) in [
        (bytes.as_str(), "no text: is this a description?"),
        (&text(&folder.path("")), "cannot be read: "),
        // It never ends.
        ("/dev/zero", "larger than 1048576 bytes"),
    ] {
        let done = wharf(&["plan", "--nic", file]);
        assert!(done.code == Some(2) && done.line().contains(told), "{done:?}");
    }
    let none = wharf(&["plan", "--nic", "nothing.toml"]);
    assert!(
        none.line().contains(
            "none of cx5, cx6dx, cx7, e1000, e810, ena, gvnic, igb, ipoib, ixgbe, simple, thor, virtio"
        ),
        "{none:?}"
    );
}

#[test]
fn a_report_opens_without_a_network() {
    let folder = Folder::new();
    let out = folder.path("report");
    let done = wharf(&["plan", "--nic", "cx5", "--report", &text(&out)]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let (svg, page) = (read("plan.svg"), read("plan.html"));
    assert!(svg.starts_with("<svg") && page.contains(&svg) && page.contains("Can it send"));
    assert!(!page.contains("src=") && !page.contains("href=\"http") && !page.contains("<script"), "{page}");
    assert!(page.contains("<code>wharf plan --nic cx5 --report DIR</code>"), "{page}");
    let file = folder.file("file", b"");
    let done = wharf(&["plan", "--report", &file]);
    assert_eq!(done.code, Some(1));
    assert!(done.line().contains(&file), "{done:?}");
}

/// An interface as sysfs and ethtool have it, recorded: a ConnectX-5 on 8 lanes of a slot of generation 3.
fn recorded() -> Folder {
    let folder = Folder::new();
    let write = |path: &str, bytes: &[u8]| {
        let path = folder.path("sys/class/net/ens1").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    // Capability list at 0x40: PCI Express, version 2. MPS 128, MRRS 4096, extended tags; gen3, 8 lanes.
    let mut config = vec![0; 256];
    (config[0x06], config[0x34], config[0x40], config[0x42]) = (0x10, 0x40, 0x10, 0x02);
    config[0x48..0x4a].copy_from_slice(&(5u16 << 12 | 1 << 8).to_le_bytes());
    config[0x52..0x54].copy_from_slice(&(8u16 << 4 | 3).to_le_bytes());
    write("device/config", &config);
    write("device/uevent", b"DRIVER=mlx5_core\n");
    write("speed", b"50000\n");
    write("../../../devices/system/cpu/online", b"0-3,8,10-11\n");
    for queue in 0..4 {
        write(&format!("queues/rx-{queue}/rps_cpus"), b"0\n");
        for (name, value) in
            [("limit", "3000"), ("limit_min", "0"), ("limit_max", "1879048192"), ("inflight", "0")]
        {
            write(&format!("queues/tx-{queue}/byte_queue_limits/{name}"), value.as_bytes());
        }
    }
    write("ethtool/private-flags", b"Private flags for ens1:\nrx_cqe_compress: on\nrx_cqe_moder: on\n");
    folder
}

#[test]
fn an_interface_is_read_and_its_missing_fields_are_named() {
    let tree = recorded();
    let from = format!("--from ens1 --sysfs {}", text(&tree.path("sys")));
    let read = plan(&from);
    assert_eq!((&read["nic"], &read["link"]), (&"cx5".into(), &"gen3x8,mps=128,mrrs=4096,rcb=64".into()));
    assert_eq!((&read["from"]["driver"], &read["from"]["tx_queues"]), (&"mlx5_core".into(), &4.into()));
    assert_eq!(read["from"]["bql"].as_array().unwrap().len(), 4);
    let missing: Vec<&str> =
        read["from"]["missing"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(missing, ["rings", "channels"]);
    assert_eq!(read["from"]["taken_instead"], serde_json::json!([]));
    assert_eq!((&read["from"]["cores"], &read["cores"]), (&7.into(), &7.into()));
    assert_eq!(plan(&format!("{from} --cores 2"))["cores"], 2);
    // Values read are marked `read`: the wire is 50 Gbit/s, and completions are compressed.
    let wire =
        read["figures"].as_array().unwrap().iter().find(|one| one["key"] == "wire_bits_per_second").unwrap();
    assert_eq!((&wire["value"], &wire["mark"]), (&50_000_000_000_u64.into(), &"read".into()));
    let compress = |plan: &Value| {
        let features = plan["features"].as_array().unwrap();
        features.iter().find(|one| one["name"] == "rx_cqe_compress").unwrap()["on"].clone()
    };
    assert_eq!(compress(&read), true);
    // The command line takes precedence.
    let over = plan(&format!("{from} --link gen4x16 --feature rx_cqe_compress=off --set tags=7"));
    assert_eq!((&over["link"], compress(&over)), (&"gen4x16,mps=256,mrrs=512,rcb=64".into(), false.into()));
    let shown = wharf(&["plan", "--from", "ens1", "--sysfs", &text(&tree.path("sys"))]);
    for words in [
        "gen3x8, MPS 128, MRRS 4096, RCB 64, tags 256",
        "3000 to 3000 bytes over 4 queues",
        "not read      rings",
        "ethtool --set-priv-flags ens1 skb_tx_mpwqe on",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
}

/// Flags are what a NIC has, not what the user decided: what would be gained by those that are off is said.
#[test]
fn flags_that_are_off_count_among_possible_gains() {
    let tree = recorded();
    let (from, sys) = (["plan", "--from", "ens1", "--sysfs"], text(&tree.path("sys")));
    tree.file("sys/class/net/ens1/ethtool/private-flags", b"rx_cqe_compress: off\nxdp_tx_mpwqe: on\n");
    let read = plan(&format!("--from ens1 --sysfs {sys} --direction rx"));
    let together = read["together"]["features"].as_array().unwrap();
    assert!(together.contains(&"rx_cqe_compress".into()), "{together:?}");
    plan(&format!("--from ens1 --sysfs {sys} --feature tx_push=on"));
    // Sizes of a link that was read are not the description's.
    let done = wharf(&[&from[..], &[&sys, "--set", "link.mps=512"]].concat());
    assert!(done.code == Some(2) && done.line().contains("say it with --link"), "{done:?}");
    assert_eq!(plan("--nic cx5 --set link.mps=512")["link"], "gen3x16,mps=512,mrrs=512,rcb=64");
    // Lanes that cannot be: the link is the description's, and why is said.
    tree.file("sys/class/net/ens1/device/current_link_speed", b"8.0 GT/s PCIe\n");
    tree.file("sys/class/net/ens1/device/current_link_width", b"3\n");
    let odd = wharf(&[&from[..], &[&sys]].concat());
    assert!(odd.stdout.contains("as cx5.toml has it (lanes: 3 cannot be: one of"), "{odd:?}");
}

#[test]
fn an_interface_without_a_bus_says_so_and_is_planned_with_a_link() {
    let refused = wharf(&["plan", "--from", "lo"]);
    let line = refused.line();
    assert!(line.contains("--from lo: there is no bus"), "{line}");
    let lo = plan("--from lo --link gen3x8");
    assert_eq!((&lo["nic"], &lo["from"]["pcie"]), (&"simple".into(), &Value::Null));
    assert!(lo["from"]["taken_instead"][0].as_str().unwrap().contains("simple stands in"), "{lo}");
    let none = wharf(&["plan", "--from", "no-such-if"]);
    assert_eq!(none.code, Some(2));
    assert!(none.line().contains("no such interface; /sys/class/net has "), "{none:?}");
    assert!(wharf(&["plan", "--sysfs", "/sys"]).line().contains("--from <IF|PCI-ADDRESS>"));
}

/// A driver of user space has it: its numbers choose the description.
#[test]
fn pci_device_without_an_interface_is_planned_by_its_numbers() {
    let tree = recorded();
    let folder = tree.path("sys/bus/pci/devices/0000:3b:00.0");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(tree.path("sys/class/net/ens1/device/config"), folder.join("config")).unwrap();
    for (name, value) in [("uevent", "DRIVER=vfio-pci"), ("vendor", "0x8086"), ("device", "0x10c9")] {
        std::fs::write(folder.join(name), format!("{value}\n")).unwrap();
    }
    let sys = text(&tree.path("sys"));
    for address in ["0000:3b:00.0", "3b:00.0"] {
        let read = plan(&format!("--from {address} --sysfs {sys}"));
        assert_eq!((&read["nic"], &read["link"]), (&"igb".into(), &"gen3x8,mps=128,mrrs=4096,rcb=64".into()));
        assert_eq!(read["from"]["pci_id"], "8086:10c9");
    }
    std::fs::write(folder.join("device"), "0xffff\n").unwrap();
    let unknown = wharf(&["plan", "--from", "3b:00.0", "--sysfs", &sys]);
    for words in
        ["no description is for driver vfio-pci, PCI device 8086:ffff", "the kernel has no interface of it"]
    {
        assert!(unknown.stdout.contains(words), "{words}: {unknown:?}");
    }
}
