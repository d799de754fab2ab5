//! Interfaces of this machine, as sysfs and ethtool describe them: recorded trees, and the loopback live.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use wharf_plan::interface::{Channels, Interface, PcieLink, Rings, SYSFS, read};

/// A tree that is deleted with the test.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wharf-sysfs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        self.write_at("class/net/eth0", path, bytes)
    }

    /// Writes a file of the PCI device 0000:3b:00.1.
    fn write_pci(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        self.write_at("bus/pci/devices/0000:3b:00.1", path, bytes)
    }

    fn write_at(&self, folder: &str, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(folder).join(path);
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
        .write("device/config", config())
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
    tree.write("device/config", &config()[..64]).write("speed", "fast").write("ethtool/rings", "?");
    let interface = read(&tree.0, "eth0").unwrap();
    assert_eq!(whats(&interface), ["MPS, MRRS, RCB, tags", "wire speed", "rings"]);
    let pcie = interface.pcie.unwrap();
    assert_eq!((pcie.generation, pcie.lanes, pcie.mps_bytes), (3, 16, None));
    // Old kernels: no attributes, all from the capability.
    tree.write("device/config", config()).write("device/current_link_speed", "Unknown");
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
    let mut config = config();
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
fn rdma_device_stands_for_the_interface_below_it() {
    let tree = full();
    let below = "../../infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0";
    tree.write(below, "eth0\n");
    assert_eq!(read(&tree.0, "mlx5_0"), read(&tree.0, "eth0"));
    for other in ["", "../eth0", "eth7"] {
        tree.write(below, other);
        assert!(read(&tree.0, "mlx5_0").is_err(), "{other}");
    }
}

#[test]
fn pci_address_stands_for_the_interface_of_the_device() {
    for below in ["net/eth0/mtu", "virtio3/net/eth0/mtu"] {
        let tree = full();
        tree.write("device/vendor", "0x15b3\n").write("device/device", "0x1017\n").write_pci(below, "1500\n");
        let interface = read(&tree.0, "0000:3b:00.1").unwrap();
        assert_eq!(interface.pci_id.as_deref(), Some("15b3:1017"), "{below}");
        assert_eq!(Ok(interface), read(&tree.0, "eth0"), "{below}");
    }
}

#[test]
fn pci_device_without_an_interface_has_its_link() {
    let tree = full();
    tree.write_pci("config", config())
        .write_pci("uevent", "DRIVER=vfio-pci\n")
        .write_pci("vendor", "0x8086\n")
        .write_pci("device", "0x10c9\n");
    let interface = read(&tree.0, "0000:3b:00.1").unwrap();
    assert_eq!(
        (interface.name.as_str(), interface.driver.as_deref(), interface.pci_id.as_deref()),
        ("0000:3b:00.1", Some("vfio-pci"), Some("8086:10c9"))
    );
    assert_eq!(interface.pcie.as_ref().map(|link| (link.generation, link.lanes)), Some((3, 16)));
    assert_eq!(interface.missing[0].why, "the kernel has no interface of it (driver vfio-pci)");
    // Its numbers lie, or there are none.
    tree.write_pci("device", "0x10c9f\n");
    assert_eq!(read(&tree.0, "0000:3b:00.1").unwrap().pci_id, None);
    let told = |name: &str| read(&tree.0, name).unwrap_err().to_string();
    assert_eq!(told("0000:3b:00.0"), "0000:3b:00.0: no such PCI device; lspci -D lists them");
    assert_eq!(read(&tree.0, "3b:00.1").unwrap().name, "0000:3b:00.1");
    for name in [":", "eth0:1", "0000:3b:00.g"] {
        assert!(told(name).contains("no such PCI device"), "{name}");
    }
    assert!(told("0000:3b:../.1").contains("without a slash"));
}

#[test]
fn loopback_is_read_live() {
    let interface = read(Path::new(SYSFS), "lo").unwrap();
    assert_eq!(interface.pcie, None);
    assert!(whats(&interface).contains(&"PCIe link"), "{:?}", interface.missing);
}

/// Returns a configuration space of 256 bytes with a power management capability and then PCI Express:
/// generation 3, 16 lanes, MPS 256, MRRS 512, extended tags.
fn config() -> Vec<u8> {
    let mut config = vec![0; 256];
    (config[0x06], config[0x34]) = (0x10, 0x40);
    config[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
    config[0x60..0x64].copy_from_slice(&[0x10, 0, 0x02, 0]);
    let control: u16 = 2 << 12 | 1 << 8 | 1 << 5;
    config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
    let status: u16 = 16 << 4 | 3;
    config[0x72..0x74].copy_from_slice(&status.to_le_bytes());
    config
}

/// Reads a tree that has the configuration space alone. Returns the link, or why there is none.
fn link_of(config: &[u8]) -> Result<PcieLink, String> {
    let tree = Tree::new();
    tree.write("device/config", config);
    let interface = read(&tree.0, "eth0").unwrap();
    let why = || interface.missing.iter().find(|missing| missing.what == "PCIe link").unwrap().why.clone();
    interface.pcie.ok_or_else(why)
}

#[test]
fn the_capability_is_found_and_read() {
    let expected = PcieLink {
        generation: 3,
        lanes: 16,
        generation_max: None,
        lanes_max: None,
        mps_bytes: Some(256),
        mrrs_bytes: Some(512),
        rcb_bytes: Some(64),
        tags: Some(256),
    };
    assert_eq!(link_of(&config()), Ok(expected));
    let mut other = config();
    other[0x70] = 1 << 3;
    other[0x69] = 0;
    let link = link_of(&other).unwrap();
    assert_eq!((link.rcb_bytes, link.tags, link.mrrs_bytes), (Some(128), Some(32), Some(128)));
    other[0x89] = 1 << 4;
    assert_eq!(link_of(&other).unwrap().tags, Some(768));
}

#[test]
fn broken_configuration_spaces_are_told_apart() {
    let told = |config: &[u8]| {
        let why = link_of(config).unwrap_err();
        why.strip_prefix("sysfs does not say, and ").unwrap().to_string()
    };
    assert_eq!(told(&[]), "the configuration space cannot be read");
    assert_eq!(told(&config()[..64]), "only root may read the configuration space beyond its first 64 bytes");
    assert_eq!(told(&config()[..0x65]), "the configuration space is cut off");
    assert_eq!(told(&[0; 256]), "the configuration space lists no capabilities");
    let mut looped = config();
    looped[0x41] = 0x40;
    assert_eq!(told(&looped), "the device has no PCI Express capability");
    assert_eq!(told(&[0xff; 256]), "the device has no PCI Express capability");
    for length in 0..=256 {
        let _ = link_of(&config()[..length]);
        let _ = link_of(&vec![0x10; length]);
    }
}

#[test]
fn attributes_are_read_as_kernels_write_them() {
    let link = |speed: &str, width: &str| {
        let tree = Tree::new();
        tree.write("device/current_link_speed", speed).write("device/current_link_width", width);
        read(&tree.0, "eth0").unwrap().pcie.map(|link| (link.generation, link.lanes))
    };
    let speeds = ["2.5 GT/s PCIe", "5.0 GT/s", "8 GT/s", "16.0 GT/s PCIe\n", "32.0 GT/s PCIe"];
    for (generation, speed) in (1..).zip(speeds) {
        assert_eq!(link(speed, "16\n"), Some((generation, 16)), "{speed}");
    }
    for speed in ["Unknown", "", "80"] {
        assert_eq!(link(speed, "16\n"), None, "{speed}");
    }
    for width in ["0", "255", "x"] {
        assert_eq!(link("8 GT/s", width), None, "{width}");
    }
}
