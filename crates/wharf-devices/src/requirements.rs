//! The requirements of kinds of devices, capabilities and files, and those that this machine lacks.

use crate::spec::Kind;
use std::path::Path;

/// Something that a kind of device needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A privilege of this process.
    Capability(Capability),
    /// A file of this machine, or a program.
    File {
        /// Its path.
        path: &'static str,
        /// The command that brings it.
        mend: &'static str,
    },
}

/// A privilege of Linux: see capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Name, as `setcap` knows it.
    pub name: &'static str,
    /// Number.
    pub bit: u32,
}

/// CAP_NET_ADMIN.
pub const NET_ADMIN: Capability = Capability { name: "cap_net_admin", bit: 12 };
/// CAP_NET_RAW.
pub const NET_RAW: Capability = Capability { name: "cap_net_raw", bit: 13 };
/// CAP_BPF.
pub const BPF: Capability = Capability { name: "cap_bpf", bit: 39 };
/// CAP_SYS_ADMIN implies CAP_BPF, which was split off it.
const SYS_ADMIN_BIT: u32 = 21;
/// The device file of TUN and TAP interfaces.
pub const TUN: Requirement = Requirement::File { path: "/dev/net/tun", mend: "sudo modprobe tun" };

/// Something that is lacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The thing that is not there.
    pub what: String,
    /// The command that mends it.
    pub mend: String,
}

/// This machine and process, as far as requirements go.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Effective capabilities; `None` when they are not to be learnt.
    capabilities: Option<u64>,
    has_file: fn(&str) -> bool,
    program: String,
}

impl Machine {
    /// Looks at this process and its file system.
    pub fn look() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let program =
            std::env::current_exe().map_or_else(|_| "wharf".into(), |path| path.display().to_string());
        Self { capabilities: effective(&status), has_file: |path| Path::new(path).exists(), program }
    }

    /// Returns the requirements that `kind` lacks, as far as that shows without opening one.
    pub fn lacking(&self, kind: &Kind) -> Vec<Lacking> {
        let needed: Vec<Capability> = kind.requirements.iter().filter_map(Requirement::capability).collect();
        let missing: Vec<&str> = needed
            .iter()
            .filter(|capability| !self.has(capability))
            .map(|capability| capability.name)
            .collect();
        let mut lacking = Vec::new();
        if !missing.is_empty() {
            // `setcap` replaces the program's set: all that the kind needs must be in it.
            let all: Vec<&str> = needed.iter().map(|capability| capability.name).collect();
            let mend = format!("sudo setcap {}+ep {}", all.join(","), self.program);
            lacking.push(Lacking { what: format!("no {}", missing.join(", ").to_uppercase()), mend });
        }
        lacking.extend(kind.requirements.iter().filter_map(|requirement| match *requirement {
            Requirement::File { path, mend } if !(self.has_file)(path) => {
                Some(Lacking { what: format!("no {path}"), mend: mend.into() })
            }
            _ => None,
        }));
        lacking
    }

    fn has(&self, capability: &Capability) -> bool {
        let bit = |bit: u32| self.capabilities.is_none_or(|set| set >> bit & 1 != 0);
        bit(capability.bit) || capability.bit == BPF.bit && bit(SYS_ADMIN_BIT)
    }
}

impl Requirement {
    fn capability(&self) -> Option<Capability> {
        match *self {
            Requirement::Capability(capability) => Some(capability),
            Requirement::File { .. } => None,
        }
    }
}

/// Returns the effective set in the text of /proc/self/status: see proc_pid_status(5).
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn machine(capabilities: u64, has_tun: bool) -> Machine {
        Machine {
            capabilities: Some(capabilities),
            has_file: if has_tun { |_| true } else { |_| false },
            program: "/bin/wharf".into(),
        }
    }

    fn lacking(name: &str, machine: &Machine) -> Vec<(String, String)> {
        let registry = Registry::default();
        let kind = registry.kinds().iter().find(|kind| kind.name == name).unwrap();
        machine.lacking(kind).into_iter().map(|lack| (lack.what, lack.mend)).collect()
    }

    #[test]
    fn a_lacking_requirement_is_named_with_its_remedy() {
        let bare = machine(0, false);
        let pair = |what: &str, mend: &str| (what.to_string(), mend.to_string());
        assert_eq!(lacking("null", &bare), []);
        assert_eq!(
            lacking("packet", &bare),
            [pair("no CAP_NET_RAW", "sudo setcap cap_net_raw+ep /bin/wharf")]
        );
        assert_eq!(
            lacking("tap", &bare),
            [
                pair("no CAP_NET_ADMIN", "sudo setcap cap_net_admin+ep /bin/wharf"),
                pair("no /dev/net/tun", "sudo modprobe tun")
            ]
        );
        assert_eq!(
            lacking("xdp", &machine(1 << 13, true)),
            [pair(
                "no CAP_NET_ADMIN, CAP_BPF",
                "sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep /bin/wharf"
            )]
        );
        assert_eq!(lacking("xdp", &machine(1 << 12 | 1 << 13 | 1 << 21, true)), []);
        assert_eq!(lacking("tap", &machine(u64::MAX, true)), []);
    }

    #[test]
    fn capabilities_are_read_from_the_status() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"), Some(0x1ff_ffff_ffff));
        for text in ["", "CapEff:\tzz", "CapPrm:\t1"] {
            assert_eq!(effective(text), None);
        }
        let unknown = Machine { capabilities: None, has_file: |_| true, program: String::new() };
        assert_eq!(lacking("packet", &unknown), [], "unknown requirements do not count as lacking");
    }
}
