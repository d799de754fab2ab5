//! Findings about a network interface: its state, driver, queues, rings and offloads, and where its interrupts go.

use super::finding::Finding;
use crate::host::number_in;
use crate::interfaces::HostInterface;
use crate::spec::Direction;
use std::fs;
use std::os::fd::AsFd;
use wharf_sys::ethtool::{Channels, Ethtool};
use wharf_sys::interface::{Interface, InterfaceSocket};
use wharf_sys::netlink::{LinkInfo, Netlink};

/// An interface, looked up.
pub(crate) struct Examined {
    pub(crate) name: String,
    pub(crate) index: i32,
    /// Its description; all unknown if the kernel does not tell.
    pub(crate) info: LinkInfo,
    /// The driver's name, empty if unknown.
    pub(crate) driver: String,
}

/// Looks the interface `name` up. Returns it with the findings on its state; `None` if it cannot be used at all.
pub(crate) fn examine(name: &str) -> (Option<Examined>, Vec<Finding>) {
    let Some(host) = HostInterface::find(name) else {
        let what = format!("there is no interface {name} in this network namespace");
        return (None, vec![Finding::obstacle("interface", Direction::Both, what).mend("ip link")]);
    };
    if !host.is_ethernet {
        let what = format!("frames of {name} have no Ethernet header");
        return (None, vec![Finding::obstacle("interface", Direction::Both, what)]);
    }
    let index = index_of(name).unwrap_or_default();
    let info = Netlink::open().and_then(|netlink| netlink.describe(index)).unwrap_or_default();
    let mut findings = vec![state(&host, &info)];
    let driver = host.driver.clone().unwrap_or_default();
    let examined = Examined { name: name.into(), index, info, driver };
    let tool = Ethtool::open().ok();
    findings.extend(tool.iter().flat_map(|tool| {
        [examined.driver(tool), examined.queues(tool), examined.rings(tool)].into_iter().flatten()
    }));
    (Some(examined), findings)
}

/// Returns the number of the interface `name`.
pub(crate) fn index_of(name: &str) -> Option<i32> {
    let socket = InterfaceSocket::open().ok()?;
    Interface::find(socket.as_fd(), name).ok().map(|interface| interface.index)
}

/// Returns the name of the interface `index` in this network namespace.
pub(crate) fn name_of(index: i32) -> Option<String> {
    InterfaceSocket::open().ok().and_then(|socket| Interface::name_of(socket.as_fd(), index).ok())
}

fn state(host: &HostInterface, info: &LinkInfo) -> Finding {
    let (name, mtu) = (&host.name, host.mtu_bytes);
    let kind = info.kind.as_deref().map_or(String::new(), |kind| format!(", kind {kind}"));
    let finding = match (host.is_up, host.has_carrier) {
        (false, _) => Finding::obstacle("interface", Direction::Both, format!("{name} is down"))
            .mend(format!("ip link set {name} up")),
        (true, false) => {
            let what = format!("{name} has no carrier: its other end is down or not plugged in");
            Finding::obstacle("interface", Direction::Send, what)
        }
        (true, true) => Finding::fact("interface", format!("{name} is up, MTU {mtu}{kind}")),
    };
    let finding =
        finding.with("name", name.as_str()).with("up", host.is_up).with("carrier", host.has_carrier);
    let finding = info.kind.as_deref().map_or(finding.clone(), |kind| finding.with("kind", kind));
    finding.with("mtu_bytes", mtu)
}

impl Examined {
    /// True if a driver of an adapter, real or emulated, serves it: the kernel's virtual interfaces name their kind.
    pub(crate) fn is_adapter(&self) -> bool {
        self.info.kind.is_none() && !matches!(self.driver.as_str(), "" | "tun" | "veth")
    }

    fn driver(&self, tool: &Ethtool) -> Option<Finding> {
        let info = tool.driver_info(&self.name).ok()?;
        let firmware = match info.firmware.as_str() {
            "" | "N/A" => String::new(),
            firmware => format!(", firmware {firmware}"),
        };
        let bus = if info.bus.contains(':') { format!(", at {}", info.bus) } else { String::new() };
        let what = format!("{} {}{firmware}{bus}", info.name, info.version);
        let finding = Finding::fact("driver", what).with("name", info.name).with("version", info.version);
        Some(finding.with("firmware", info.firmware).with("bus", info.bus))
    }

    /// Returns the numbers of receive and transmit queues: those that the driver uses, or that the interface was made with.
    pub(crate) fn queue_counts(&self, tool: &Ethtool) -> (u32, u32) {
        let used = |all: Channels| (all.rx + all.combined, all.tx + all.combined);
        let made = (self.info.rx_queues, self.info.tx_queues);
        tool.channels(&self.name).map_or(made, used)
    }

    fn queues(&self, tool: &Ethtool) -> Option<Finding> {
        let (rx, tx) = self.queue_counts(tool);
        if rx + tx == 0 {
            return None;
        }
        let most =
            tool.channels_max(&self.name).ok().map(|most| (most.rx + most.combined, most.tx + most.combined));
        let of = most.map_or(String::new(), |(rx, tx)| format!(" (at most {rx} and {tx})"));
        let finding = Finding::fact("queues", format!("{rx} to receive, {tx} to send{of}"));
        let finding = finding.with("rx", rx).with("tx", tx);
        Some(most.map_or(finding.clone(), |(rx, tx)| finding.with("rx_max", rx).with("tx_max", tx)))
    }

    fn rings(&self, tool: &Ethtool) -> Option<Finding> {
        let rings = tool.rings(&self.name).ok().filter(|rings| rings.rx_max + rings.tx_max > 0)?;
        let what = format!(
            "{} to receive (at most {}), {} to send (at most {})",
            rings.rx, rings.rx_max, rings.tx, rings.tx_max
        );
        let finding = Finding::fact("rings", what).with("rx", rings.rx).with("rx_max", rings.rx_max);
        Some(finding.with("tx", rings.tx).with("tx_max", rings.tx_max))
    }

    /// Returns the findings on the processors that serve an adapter, as far as sysfs and procfs tell.
    pub(crate) fn processors(&self) -> Vec<Finding> {
        let device = format!("/sys/class/net/{}/device", self.name);
        let index = fs::read_to_string(format!("/sys/class/net/{}/ifindex", self.name)).unwrap_or_default();
        // sysfs may show another network namespace than this thread's.
        if index.trim() != self.index.to_string() {
            return Vec::new();
        }
        [numa(&device), interrupts(&device), governor()].into_iter().flatten().collect()
    }
}

fn numa(device: &str) -> Option<Finding> {
    let node: u64 = number_in(&format!("{device}/numa_node"))?;
    let processors = fs::read_to_string(format!("{device}/local_cpulist")).unwrap_or_default();
    let processors = processors.trim();
    let what = format!(
        "the adapter is on node {node}, next to processors {processors}: --cpu with one of these; xdp takes its memory there"
    );
    Some(Finding::fact("numa", what).with("node", node).with("processors", processors))
}

fn interrupts(device: &str) -> Option<Finding> {
    let mut numbers: Vec<u32> = fs::read_dir(format!("{device}/msi_irqs"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let processors = |number: &u32| {
        let path = format!("/proc/irq/{number}/effective_affinity_list");
        Some(format!("{number} on {}", fs::read_to_string(path).ok()?.trim()))
    };
    let all: Vec<String> = numbers.iter().filter_map(processors).collect();
    (!all.is_empty()).then(|| {
        let what = format!("interrupts and their processors: {}", all.join(", "));
        Finding::fact("interrupts", what).with("count", all.len() as u64)
    })
}

/// Returns a hint if the first processor's clock follows its load: it is slow when a packet wakes it.
fn governor() -> Option<Finding> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    let governor = text.trim();
    let is_slow = matches!(governor, "powersave" | "ondemand" | "conservative");
    let finding = if is_slow {
        let what = format!("processors change their frequency by load ({governor}): delays vary");
        Finding::hint("frequency", what).mend("sudo cpupower frequency-set -g performance")
    } else {
        Finding::fact("frequency", format!("processors' governor is {governor}"))
    };
    Some(finding.with("governor", governor))
}
