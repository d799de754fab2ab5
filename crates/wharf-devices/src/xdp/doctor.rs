//! Findings about `xdp:` on an interface, for a diagnosis.

use super::receiving::deferred;
use crate::doctor::finding::Finding;
use crate::doctor::interface::{self, Examined};
use crate::doctor::kernel::{self, EVER, Flaw, FlawWeight, Version};
use crate::doctor::{Doctor, Effect, host};
use crate::requirements::{Capability, NET_RAW};
use crate::spec::{DeviceSpec, Direction};
use wharf_sys::ethtool::Ethtool;
use wharf_sys::netlink::{AttachMode, Deferral, Napi, XdpFeatures, xdp_features};
use wharf_sys::xdp::{link_of, program_name};

/// The kind's part in a diagnosis.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect };

/// Name of the program that receivers load.
const PROGRAM_NAME: &str = "wharf";

/// The faults of older kernels that concern AF_XDP.
const FLAWS: &[Flaw] = &[
    Flaw {
        from: EVER,
        until: Version(5, 4, 0),
        weight: FlawWeight::Prevents(Direction::Both),
        what: "AF_XDP has no unaligned buffers and no flags in its rings",
    },
    Flaw {
        from: EVER,
        until: Version(5, 9, 0),
        weight: FlawWeight::Prevents(Direction::Receive),
        what: "XDP programs cannot be attached by a link, which goes with its process",
    },
    Flaw {
        from: EVER,
        until: Version(6, 6, 0),
        weight: FlawWeight::Hint,
        what: "a frame is in one piece: none is longer than 4 KiB (no XDP_USE_SG)",
    },
    Flaw {
        from: Version(6, 6, 0),
        until: Version(6, 16, 8),
        weight: FlawWeight::Fact,
        what: "in copy mode a frame of several pieces may be reported as sent before it is, while the driver is busy",
    },
    Flaw {
        from: Version(6, 16, 8),
        until: Version(6, 17, 0),
        weight: FlawWeight::Hint,
        what: "sending in copy mode to a receiver on this host can crash this kernel (CVE-2025-40290)",
    },
    Flaw {
        from: Version(6, 17, 0),
        until: Version(6, 17, 11),
        weight: FlawWeight::Hint,
        what: "sending in copy mode to a receiver on this host can crash this kernel (CVE-2025-40290)",
    },
    Flaw {
        from: EVER,
        until: Version(6, 8, 0),
        weight: FlawWeight::Fact,
        what: "frames of several buffers may be dropped on all queues of a device but the first: queue=N",
    },
    Flaw {
        from: EVER,
        until: Version(6, 17, 0),
        weight: FlawWeight::Fact,
        what: "in copy mode the kernel takes 32 frames a system call (no XDP_MAX_TX_SKB_BUDGET)",
    },
];

fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    let (examined, mut findings) = interface::examine(spec.place());
    if let Some(examined) = &examined {
        findings.extend(super::layers::findings(examined));
        findings.extend(program(examined, spec));
        findings.extend(busy_polling(spec, examined));
        findings.extend(offloads(examined));
        findings.extend(metadata(examined));
        findings.extend(examined.processors());
    }
    let can_be_zero_copy = examined.as_ref().is_some_and(Examined::is_adapter);
    findings.extend(host::huge_pages(can_be_zero_copy.then_some(
        "frames of 2 KiB need them to be received without copies; --frame-bytes 4096 does without",
    )));
    findings.extend(host::locked_memory());
    // A helper has them.
    if spec.options().text("helper").is_none() {
        findings.extend(host::rights(spec.kind(), |capability: &Capability| match *capability {
            NET_RAW => Direction::Both,
            _ => Direction::Receive,
        }));
    }
    findings.extend(kernel::findings(FLAWS));
    findings
}

/// Returns the finding on the XDP program of the interface, if it has one. It keeps a receiver out, unless the receiver can share it: a
/// program of Wharf's that chooses the same frames, or one that the specification, or its helper, names.
fn program(examined: &Examined, spec: &DeviceSpec) -> Option<Finding> {
    let program = examined.info.program?;
    let interface = &examined.name;
    let name = program_name(program.id).ok().filter(|name| !name.is_empty());
    let link = link_of(examined.index, program.id).ok().flatten();
    let called = name.as_ref().map_or(String::new(), |name| format!(" \"{}\"", name.escape_debug()));
    let by = link.map_or(String::new(), |link| format!(", by link {link}"));
    let mode = program.mode.word();
    let what = format!("{interface} has XDP program {}{called} ({mode}{by})", program.id);
    let is_named = spec.options().given().any(|key| matches!(key.name, "map" | "program" | "helper"));
    let finding = if is_named {
        Finding::fact("program", what)
    } else if name.as_deref() == Some(PROGRAM_NAME) {
        Finding::fact(
            "program",
            format!("{what}: shared by receivers of other queues that choose the same frames"),
        )
    } else {
        Finding::obstacle("program", Direction::Receive, what).mend(removal(interface, program.mode, link))
    };
    let finding = finding.with("id", program.id).with("mode", mode);
    let finding = name.map_or(finding.clone(), |name| finding.with("name", name));
    Some(link.map_or(finding.clone(), |link| finding.with("link", link)))
}

/// Returns the command that takes a program out.
fn removal(interface: &str, mode: AttachMode, link: Option<u32>) -> String {
    let hook = match mode {
        AttachMode::Native => "xdpdrv",
        AttachMode::Generic => "xdpgeneric",
        AttachMode::Offloaded => "xdpoffload",
        AttachMode::Several => "xdp",
    };
    link.map_or_else(
        || format!("ip link set {interface} {hook} off"),
        |link| format!("end the process that has it, or bpftool link detach id {link}"),
    )
}

/// Returns the finding on interrupts that come in spite of busy polling, if it is asked for.
fn busy_polling(spec: &DeviceSpec, examined: &Examined) -> Option<Finding> {
    spec.options().number("busy-poll").filter(|&time_us| time_us > 0)?;
    let name = &examined.name;
    let Deferral { empty_polls, timeout_ns } = deferred::interface(name)?;
    let of_queue = || Napi::of_queue(examined.index, 0).and_then(|napi| napi.deferral());
    let finding = if empty_polls > 0 && timeout_ns > 0 {
        let what = format!("interrupts are put off {empty_polls} times, for {timeout_ns} ns each");
        Finding::fact("busy-poll", what)
    } else if let Ok(found) = of_queue() {
        let now = if found == deferred::POLLED { "; those of queue 0 are put off now" } else { "" };
        let what = "interrupts are put off queue by queue, as long as the device is open";
        Finding::fact("busy-poll", format!("{what}{now}"))
    } else {
        let what = "the kernel cannot put off interrupts by queue (Linux 6.13, and the driver): they come in spite of busy polling";
        let folder = format!("/sys/class/net/{name}");
        Finding::hint("busy-poll", what)
            .mend(format!("echo 2 >{folder}/napi_defer_hard_irqs; echo 200000 >{folder}/gro_flush_timeout"))
    };
    Some(finding.with("napi_defer_hard_irqs", empty_polls).with("gro_flush_timeout_ns", timeout_ns))
}

/// Returns the findings on offloads that change frames before a program sees them. Those of interfaces on top of others are only
/// wishes of the kernel's.
fn offloads(examined: &Examined) -> Vec<Finding> {
    let interface = &examined.name;
    if examined.driver == "veth" {
        let what = "VLAN tags that the other end leaves to the interface do not get into xdp";
        return vec![Finding::fact("offloads", what).mend("ethtool -K PEER txvlan off, at the other end")];
    }
    let offloads = Ethtool::open().and_then(|tool| tool.offloads(interface));
    let Some(offloads) = offloads.ok().filter(|_| examined.is_adapter()) else { return Vec::new() };
    let mut findings = Vec::new();
    if offloads.rx_vlan {
        let what = "VLAN tags are taken out of frames that arrive: xdp receives these without their tags";
        let finding = Finding::hint("offloads", what).mend(format!("ethtool -K {interface} rxvlan off"));
        findings.push(finding.with("rxvlan", true));
    }
    if offloads.lro {
        let what = "the adapter merges segments that arrive: with that many drivers refuse XDP programs";
        let finding = Finding::hint("offloads", what).mend(format!("ethtool -K {interface} lro off"));
        findings.push(finding.with("lro", true));
    }
    findings
}

/// Returns the finding on requests that the driver takes with frames, and on facts that it tells XDP programs; `None` if the kernel does not
/// tell (before Linux 6.8).
fn metadata(examined: &Examined) -> Option<Finding> {
    let features = xdp_features(examined.index).ok()?;
    let XdpFeatures { tx_checksum, tx_timestamp, tx_launch_time, rx_timestamp, rx_hash, rx_vlan_tag, .. } =
        features;
    let named = |all: &[(bool, &str)]| {
        let had: Vec<&str> = all.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        if had.is_empty() { "none".to_owned() } else { had.join(", ") }
    };
    let to_send =
        named(&[(tx_checksum, "checksums"), (tx_timestamp, "time stamps"), (tx_launch_time, "launch times")]);
    let to_receive = named(&[(rx_timestamp, "time stamps"), (rx_hash, "hashes"), (rx_vlan_tag, "VLAN tags")]);
    let what = format!(
        "offloads of frames sent without copying: {to_send}; facts that the driver tells XDP programs: {to_receive}"
    );
    let finding = Finding::fact("metadata", what).with("zero_copy", features.zero_copy);
    let finding = finding.with("tx_checksum", tx_checksum).with("tx_timestamp", tx_timestamp);
    let finding = finding.with("tx_launch_time", tx_launch_time).with("rx_timestamp", rx_timestamp);
    Some(finding.with("rx_hash", rx_hash).with("rx_vlan_tag", rx_vlan_tag))
}

fn effect(spec: &DeviceSpec, direction: Direction) -> Effect {
    let (Some(examined), _) = interface::examine(spec.place()) else { return Effect::None };
    let taken = "an examination opens it to receive for some milliseconds, in which frames of its queues do not reach this host";
    let resets = "some adapters reset their link, for up to two seconds, when an XDP program is attached";
    let copies = spec.options().word("mode") == Some("copy");
    match (direction, examined.is_adapter()) {
        (Direction::Send, true) if !copies => {
            Effect::Reset(format!("an examination opens it to send without copying for a moment: {resets}"))
        }
        (Direction::Send, _) => Effect::None,
        (Direction::Receive | Direction::Both, false) => Effect::Short(taken.into()),
        (Direction::Receive | Direction::Both, true) => Effect::Reset(format!("{taken}; {resets}")),
    }
}
