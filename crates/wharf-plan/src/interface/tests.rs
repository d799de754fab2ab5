use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// A tree that is deleted with the test.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wharf-sysfs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join("class/net/eth0").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn whats(interface: &Interface) -> Vec<&str> {
    interface.missing.iter().map(|missing| missing.what).collect()
}

fn full() -> Tree {
    let tree = Tree::new();
    tree.write("speed", "100000\n")
        .write("device/config", pci::tests::config())
        .write("device/uevent", "DRIVER=mlx5_core\nPCI_CLASS=20000\n")
        .write("device/current_link_speed", "8.0 GT/s PCIe\n")
        .write("device/current_link_width", "16\n")
        .write("device/max_link_speed", "16.0 GT/s PCIe\n")
        .write("device/max_link_width", "16\n")
        .write("ethtool/rings", "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\nTX:\t\t8192\nCurrent hardware settings:\nRX:\t\t1024\nRX Mini:\tn/a\nTX:\t\t512\n")
        .write("ethtool/channels", "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t63\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t12\n")
        .write("ethtool/private-flags", "Private flags for eth0:\nrx_cqe_compress    : off\nxdp_tx_mpwqe       : on\n");
    for queue in [0, 1, 10] {
        let limits = format!("queues/tx-{queue}/byte_queue_limits");
        tree.write(&format!("{limits}/limit"), format!("{}\n", 1000 + queue))
            .write(&format!("{limits}/limit_min"), "0\n")
            .write(&format!("{limits}/limit_max"), "1879048192\n")
            .write(&format!("{limits}/inflight"), "7\n");
        tree.write(&format!("queues/rx-{queue}/rps_cpus"), "0\n");
    }
    tree
}

#[test]
fn a_recorded_tree_is_read_whole() {
    let tree = full();
    let interface = read(&tree.0, "eth0").unwrap();
    assert_eq!(interface.missing, []);
    let pcie = PcieLink {
        generation: 3,
        lanes: 16,
        generation_max: Some(4),
        lanes_max: Some(16),
        mps_bytes: Some(256),
        mrrs_bytes: Some(512),
        rcb_bytes: Some(64),
        tags: Some(256),
    };
    assert_eq!(interface.pcie, Some(pcie));
    assert_eq!((interface.driver.as_deref(), interface.speed_mbit), (Some("mlx5_core"), Some(100_000)));
    assert_eq!((interface.tx_queues, interface.rx_queues), (Some(3), Some(3)));
    assert_eq!(interface.rings, Some(Rings { rx: 1024, tx: 512, rx_max: 8192, tx_max: 8192 }));
    assert_eq!(interface.channels, Some(Channels { rx: 0, tx: 0, combined: 12 }));
    let flags = [("rx_cqe_compress".to_string(), false), ("xdp_tx_mpwqe".to_string(), true)];
    assert_eq!(interface.private_flags, flags);
    let limits: Vec<(u32, u64)> =
        interface.byte_limits.iter().map(|one| (one.queue, one.limit_bytes)).collect();
    assert_eq!(limits, [(0, 1000), (1, 1001), (10, 1010)]);
}

#[test]
fn missing_keys_are_reported() {
    let tree = Tree::new();
    tree.write("speed", "-1\n");
    let interface = read(&tree.0, "eth0").unwrap();
    let all = [
        "PCIe link",
        "wire speed",
        "queues",
        "byte limits (BQL)",
        "driver",
        "rings",
        "channels",
        "private flags",
    ];
    assert_eq!(whats(&interface), all);
    // An ordinary user's view: 64 bytes of configuration, the link from attributes.
    let tree = full();
    tree.write("device/config", &pci::tests::config()[..64])
        .write("speed", "fast")
        .write("ethtool/rings", "?");
    let interface = read(&tree.0, "eth0").unwrap();
    assert_eq!(whats(&interface), ["MPS, MRRS, RCB, tags", "wire speed", "rings"]);
    let pcie = interface.pcie.unwrap();
    assert_eq!((pcie.generation, pcie.lanes, pcie.mps_bytes), (3, 16, None));
    // Old kernels: no attributes, all from the capability.
    tree.write("device/config", pci::tests::config()).write("device/current_link_speed", "Unknown");
    let pcie = read(&tree.0, "eth0").unwrap().pcie.unwrap();
    assert_eq!((pcie.generation, pcie.lanes), (3, 16));
}

#[test]
fn garbage_is_missing_and_never_shown() {
    let limit = "queues/tx-1/byte_queue_limits/limit";
    let told = |path: &str, bytes: &[u8], what: &str| {
        let tree = full();
        tree.write(path, bytes);
        let interface = read(&tree.0, "eth0").unwrap();
        let missing = interface.missing.iter().find(|missing| missing.what == what);
        missing.unwrap_or_else(|| panic!("{path}: {:?}", interface.missing)).why.clone()
    };
    // Old kernels write this for an unknown speed.
    assert_eq!(told("speed", b"4294967295\n", "wire speed"), "the driver does not say");
    assert_eq!(told("speed", &[0xff; 9], "wire speed"), "no text");
    assert!(told("speed", &[0; 100_000], "wire speed").len() < 200);
    assert_eq!(told(limit, b"-5\n", "byte limits (BQL)"), "tx-1, limit: -5 cannot be");
    assert_eq!(told(limit, b"\x1b[31m\n", "byte limits (BQL)"), "tx-1, limit: \"\\u{1b}[31m\" is no number");
    let mut config = pci::tests::config();
    config[0x68] |= 7 << 5;
    assert_eq!(told("device/config", &config, "MPS"), "the configuration space has a reserved value");
    let tree = full();
    tree.write("device/uevent", "DRIVER=a\x1bb\n").write("ethtool/private-flags", "a\x1bb: on\nc: on\n");
    let interface = read(&tree.0, "eth0").unwrap();
    assert_eq!((interface.driver, interface.private_flags), (None, vec![("c".to_string(), true)]));
}

#[test]
fn unknown_name_error_lists_the_known() {
    let tree = full();
    let told = |name: &str| read(&tree.0, name).unwrap_err().to_string();
    assert!(told("eth1").starts_with("eth1: no such interface; ") && told("eth1").ends_with(" has eth0"));
    for name in ["", "..", "a/b", "sixteen-bytes-xx"] {
        assert!(told(name).contains("no name of an interface"), "{name}");
    }
}

#[test]
fn loopback_is_read_live() {
    let interface = read(Path::new(SYSFS), "lo").unwrap();
    assert_eq!(interface.pcie, None);
    assert!(whats(&interface).contains(&"PCIe link"), "{:?}", interface.missing);
}
