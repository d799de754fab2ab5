//! The settings of an interface: its bus, wire, queues, rings, flags and byte limits, from sysfs and ethtool.
//!
//! Any value may be missing: a virtual interface has no PCI device, an ordinary user does not see all of a
//! device's configuration space, a driver may not report. [`Interface::missing`] lists the values that could
//! not be read, with the reasons. A tree recorded on another machine is read like `/sys`. In it,
//! `class/net/IF/ethtool/` may hold the output of `ethtool -i`, `-g`, `-l` and `--show-priv-flags`, as
//! `driver`, `rings`, `channels`, `private-flags`.

mod pci;
mod recorded;

pub use pci::PcieLink;
pub use wharf_sys::ethtool::{Channels, Rings};

use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use wharf_sys::ethtool::Ethtool;

/// The path of sysfs on a running system.
pub const SYSFS: &str = "/sys";

/// More than any attribute has: a file of a recorded tree may be of any size.
const FILE_BYTES_MAX: u64 = 65536;
/// Faster than any wire; a driver that does not know its speed reports more.
const SPEED_MBIT_MAX: i64 = 100_000_000;

/// An interface, as far as it could be read. Its JSON is part of a report: keys are added to, never renamed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Interface {
    /// Its name.
    #[serde(rename = "interface")]
    pub name: String,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// The vendor's and the device's number on PCI: `8086:10c9`.
    pub pci_id: Option<String>,
    /// The link to the host.
    pub pcie: Option<PcieLink>,
    /// The wire's speed.
    pub speed_mbit: Option<u64>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Processors of the machine that are online.
    pub cores: Option<u32>,
    /// Sizes of rings.
    pub rings: Option<Rings>,
    /// Channels in use.
    pub channels: Option<Channels>,
    /// The driver's own switches.
    #[serde(serialize_with = "serialize_flags")]
    pub private_flags: Vec<(String, bool)>,
    /// Byte limits, queue by queue.
    #[serde(rename = "bql")]
    pub byte_limits: Vec<ByteLimit>,
    /// Values that could not be read.
    pub missing: Vec<Missing>,
}

/// Writes each flag as an object with a name.
fn serialize_flags<S: Serializer>(flags: &[(String, bool)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Flag<'a> {
        name: &'a str,
        on: bool,
    }
    serializer.collect_seq(flags.iter().map(|(name, on)| Flag { name, on: *on }))
}

/// The byte limit of a transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ByteLimit {
    /// The queue's number.
    pub queue: u32,
    /// Bytes that may be in flight to the NIC.
    pub limit_bytes: u64,
    /// The least value of the limit.
    pub limit_min_bytes: u64,
    /// The greatest value of the limit.
    pub limit_max_bytes: u64,
    /// Bytes in flight to the NIC.
    pub inflight_bytes: u64,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The value.
    pub what: &'static str,
    /// The reason.
    pub why: String,
}

/// An interface that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct NoInterface {
    name: String,
    why: String,
}

/// Reads the settings of `name` under `root`, which is [`SYSFS`] or a recorded tree: of an interface, or of the one below an RDMA
/// device or a PCI device, whose address may be short, as `lspci` prints it. A PCI device that another driver
/// has, vfio-pci for example, has no interface: its link alone is read.
///
/// # Errors
/// [`NoInterface`]. A value that cannot be read is no error.
pub fn read(root: &Path, name: &str) -> Result<Interface, NoInterface> {
    let name = &*with_domain(name);
    let fault = |why: String| NoInterface { name: name.escape_debug().to_string(), why };
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= 15 && name != "." && name != ".." && !name.contains('/')
    };
    if !is_name(name) {
        return Err(fault(
            "no name of an interface (1 to 15 bytes without a slash), and no PCI address like 0000:03:00.0"
                .into(),
        ));
    }
    // No interface has a colon in its name, and every PCI address has two.
    let device = root.join("bus/pci/devices").join(name);
    let of_device = match name.contains(':') {
        false => None,
        true if !device.is_dir() => return Err(fault("no such PCI device; lspci -D lists them".into())),
        true => match pci::interface_of(&device) {
            None => return Ok(without_interface(name, &device, cores(root))),
            interface => interface,
        },
    };
    let name = of_device.as_deref().unwrap_or(name);
    let net = root.join("class/net");
    // A port of RoCE names the interface of each of its GIDs; the first GID is always there.
    let below = fs::read_to_string(root.join(format!("class/infiniband/{name}/ports/1/gid_attrs/ndevs/0")));
    let below = below.unwrap_or_default();
    let name = if net.join(name).is_dir() || !is_name(below.trim()) { name } else { below.trim() };
    let folder = net.join(name);
    if !folder.is_dir() {
        let there = names(&net).join(", ");
        let there = if there.is_empty() { "none" } else { &there };
        return Err(fault(format!("no such interface; {} has {there}", net.display())));
    }
    let cores = cores(root);
    let mut reader =
        Reader { folder, interface: Interface { name: name.into(), cores, ..Interface::default() } };
    reader.sysfs();
    if root == Path::new(SYSFS) {
        reader.ethtool()
    } else {
        reader.recorded()
    }
    Ok(reader.interface)
}

/// Adds the domain to a PCI address: `lspci` leaves 0000 out.
fn with_domain(name: &str) -> Cow<'_, str> {
    let is_short = name.matches(':').count() == 1 && name.contains('.');
    if is_short { format!("0000:{name}").into() } else { name.into() }
}

/// Reads a PCI device that the kernel has no interface of.
fn without_interface(address: &str, device: &Path, cores: Option<u32>) -> Interface {
    let interface = Interface { name: address.into(), cores, ..Interface::default() };
    let mut reader = Reader { folder: device.into(), interface };
    reader.pci(Some(device));
    let driver = reader.interface.driver.as_deref().unwrap_or("none");
    let why = format!("the kernel has no interface of it (driver {driver})");
    reader.miss("wire speed, queues, rings, channels, flags, byte limits", why);
    reader.interface
}

/// Counts the processors of a list such as `0-3,8`.
fn cores(root: &Path) -> Option<u32> {
    let online = file_text(&root.join("devices/system/cpu/online")).ok()?;
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    online
        .trim()
        .split(',')
        .map(count)
        .try_fold(0u32, |sum, one| sum.checked_add(one?))
        .filter(|&cores| cores > 0)
}

/// Returns the names in a folder, in order; none of a folder that cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

struct Reader {
    folder: PathBuf,
    interface: Interface,
}

impl Reader {
    fn miss(&mut self, what: &'static str, why: impl ToString) {
        self.interface.missing.push(Missing { what, why: why.to_string() });
    }

    /// Returns a value, or keeps the reason and returns `None`.
    fn keep<T>(&mut self, what: &'static str, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.miss(what, why)).ok()
    }

    fn sysfs(&mut self) {
        let device = fs::canonicalize(self.folder.join("device")).ok();
        self.pci(device.as_deref());
        let speed = number(&self.folder.join("speed")).and_then(|speed| {
            let read = u64::try_from(speed).ok().filter(|_| (1..=SPEED_MBIT_MAX).contains(&speed));
            // -1, or the same without a sign.
            read.ok_or_else(|| "the driver does not say".to_string())
        });
        self.interface.speed_mbit = self.keep("wire speed", speed);
        self.queues();
    }

    /// Reads the driver, the numbers and the link of the device behind it.
    fn pci(&mut self, device: Option<&Path>) {
        self.interface.driver = device.and_then(driver);
        self.interface.pci_id = device.and_then(pci::id);
        let pcie = match device {
            Some(device) => pci::read(device),
            None => Err("there is no device behind it: it is virtual".into()),
        };
        if let Some((link, missing)) = self.keep("PCIe link", pcie) {
            self.interface.pcie = Some(link);
            missing.into_iter().for_each(|(what, why)| self.miss(what, why));
        }
    }

    fn queues(&mut self) {
        let names = names(&self.folder.join("queues"));
        let of = |kind: &str| -> Vec<u32> {
            let mut numbers: Vec<u32> =
                names.iter().filter_map(|name| name.strip_prefix(kind)?.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        let (tx, rx) = (of("tx-"), of("rx-"));
        let count = |queues: &[u32]| u32::try_from(queues.len()).ok().filter(|&count| count > 0);
        (self.interface.tx_queues, self.interface.rx_queues) = (count(&tx), count(&rx));
        if tx.is_empty() || rx.is_empty() {
            self.miss("queues", "sysfs lists none");
        }
        let limits: Vec<_> = tx.iter().map(|&queue| byte_limit(&self.folder, queue)).collect();
        // The first that cannot be read stands for all.
        match limits.iter().find_map(|limit| limit.as_ref().err()) {
            Some(why) => self.miss("byte limits (BQL)", why),
            None if limits.is_empty() => self.miss("byte limits (BQL)", "there is no transmit queue"),
            None => {}
        }
        self.interface.byte_limits = limits.into_iter().flatten().collect();
    }

    fn ethtool(&mut self) {
        let name = self.interface.name.clone();
        let ethtool = match Ethtool::open() {
            Ok(ethtool) => ethtool,
            Err(error) => return self.miss("rings, channels, flags", error),
        };
        let told = |error: io::Error| match error.raw_os_error() {
            Some(95) => "the driver does not tell".to_string(),
            _ => error.to_string(),
        };
        let driver = self.keep("driver", ethtool.driver(&name).map_err(told));
        // A virtual interface has no device, but ethtool knows its driver.
        self.interface.driver = self.interface.driver.take().or(driver.map(|driver| driver.0));
        self.interface.rings = self.keep("rings", ethtool.rings(&name).map_err(told));
        self.interface.channels = self.keep("channels", ethtool.channels(&name).map_err(told));
        let flags = self.keep("private flags", ethtool.private_flags(&name).map_err(told));
        self.interface.private_flags = flags.unwrap_or_default();
    }

    fn recorded(&mut self) {
        let folder = self.folder.join("ethtool");
        let text = |name: &str| {
            file_text(&folder.join(name)).map_err(|_| format!("the recorded tree has no ethtool/{name}"))
        };
        if let Some(driver) = text("driver").ok().and_then(|text| recorded::driver(&text)) {
            self.interface.driver = Some(driver);
        } else if self.interface.driver.is_none() {
            self.miss("driver", "neither device/uevent nor ethtool/driver says");
        }
        let unclear = |name: &str| format!("ethtool/{name} is not what ethtool prints");
        let rings = text("rings").and_then(|text| recorded::rings(&text).ok_or_else(|| unclear("rings")));
        self.interface.rings = self.keep("rings", rings);
        let channels =
            text("channels").and_then(|text| recorded::channels(&text).ok_or_else(|| unclear("channels")));
        self.interface.channels = self.keep("channels", channels);
        let flags = self.keep("private flags", text("private-flags"));
        self.interface.private_flags = flags.map(|text| recorded::private_flags(&text)).unwrap_or_default();
    }
}

/// Returns the driver of a device: from its link in a live tree, from its uevent in a recorded one.
fn driver(device: &Path) -> Option<String> {
    let linked = fs::read_link(device.join("driver"))
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into()));
    linked.or_else(|| {
        let uevent = file_text(&device.join("uevent")).ok()?;
        let driver = uevent.lines().find_map(|line| line.strip_prefix("DRIVER="))?;
        // The name is shown as it is.
        (!driver.contains(char::is_control)).then(|| driver.to_string())
    })
}

/// Returns the start of a file, at most as long as an attribute.
fn file_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn file_text(path: &Path) -> io::Result<String> {
    String::from_utf8(file_start(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no text"))
}

/// Returns the number in a file.
fn number(path: &Path) -> Result<i64, String> {
    let text = file_text(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "sysfs has no such file".to_string(),
        // EINVAL: the driver has no answer, or the interface is down.
        io::ErrorKind::InvalidInput => "the driver does not say, or the interface is down".to_string(),
        _ => error.to_string(),
    })?;
    let shown = || text.trim().chars().take(24).collect::<String>();
    text.trim().parse().map_err(|_| format!("\"{}\" is no number", shown().escape_debug()))
}

fn byte_limit(folder: &Path, queue: u32) -> Result<ByteLimit, String> {
    let limits = folder.join(format!("queues/tx-{queue}/byte_queue_limits"));
    if !limits.is_dir() {
        return Err(format!("tx-{queue} has none: a kernel or a queue without BQL"));
    }
    let read = |name: &str| {
        let bytes = number(&limits.join(name));
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).map_err(|_| format!("{bytes} cannot be")));
        bytes.map_err(|why| format!("tx-{queue}, {name}: {why}"))
    };
    Ok(ByteLimit {
        queue,
        limit_bytes: read("limit")?,
        limit_min_bytes: read("limit_min")?,
        limit_max_bytes: read("limit_max")?,
        inflight_bytes: read("inflight")?,
    })
}
