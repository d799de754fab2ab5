//! The requirements of kinds of devices, capabilities and files, and those that this machine lacks.

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
    /// True if the capabilities hold in a user namespace other than the first, where the kernel loads no BPF program.
    is_contained: bool,
    has_file: fn(&str) -> bool,
    program: String,
}

impl Machine {
    /// Looks at this process and its file system.
    pub fn look() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let program =
            std::env::current_exe().map_or_else(|_| "wharf".into(), |path| path.display().to_string());
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Self::of(&status, |path| Path::new(path).exists(), program).in_namespace_of(&map)
    }

    /// Sets the user namespace, by the text of a process's `/proc/PID/uid_map`: the first one maps every user to itself. See
    /// user_namespaces(7).
    #[must_use]
    pub fn in_namespace_of(mut self, uid_map: &str) -> Self {
        let words: Vec<&str> = uid_map.split_whitespace().collect();
        self.is_contained = !words.is_empty() && words != ["0", "0", "4294967295"];
        self
    }

    /// Makes one of the text of a process's `/proc/PID/status`, its files, and the path of its program.
    pub fn of(status: &str, has_file: fn(&str) -> bool, program: String) -> Self {
        Self { capabilities: effective(status), is_contained: false, has_file, program }
    }

    /// Returns the `requirements` of a kind that are lacking, as far as that shows without opening one.
    pub fn lacking(&self, requirements: &[Requirement]) -> Vec<Lacking> {
        let needed: Vec<Capability> = capabilities(requirements).collect();
        let missing: Vec<&str> = needed
            .iter()
            .filter(|capability| !self.has(capability))
            .map(|capability| capability.name)
            .collect();
        let mut lacking = Vec::new();
        if !missing.is_empty() {
            let what = format!("no {}", missing.join(", ").to_uppercase());
            lacking.push(Lacking { what, mend: self.setcap(requirements) });
        }
        if self.is_contained && missing.is_empty() && needed.contains(&BPF) {
            let what = "no CAP_BPF outside this user namespace, which receiving needs".into();
            lacking.push(Lacking { what, mend: "run it outside the user namespace".into() });
        }
        lacking.extend(requirements.iter().filter_map(|requirement| match *requirement {
            Requirement::File { path, mend } if !(self.has_file)(path) => {
                Some(Lacking { what: format!("no {path}"), mend: mend.into() })
            }
            _ => None,
        }));
        lacking
    }

    /// Returns the command that gives the program the capabilities of a kind's `requirements`. It replaces
    /// the program's set: all that the kind needs is in it.
    pub(crate) fn setcap(&self, requirements: &[Requirement]) -> String {
        let all: Vec<&str> = capabilities(requirements).map(|capability| capability.name).collect();
        // The files that Docker and Podman put there.
        if (self.has_file)("/.dockerenv") || (self.has_file)("/run/.containerenv") {
            // Docker takes one in each.
            let add = |name: &&str| format!("--cap-add {} ", name.trim_start_matches("cap_").to_uppercase());
            return format!("{}at the container's start", all.iter().map(add).collect::<String>());
        }
        format!("sudo setcap {}+ep {}", all.join(","), self.program)
    }

    /// True in a user namespace other than the first.
    pub(crate) fn is_contained(&self) -> bool {
        self.is_contained
    }

    /// True if the process has `capability`, or it is unknown.
    pub(crate) fn has(&self, capability: &Capability) -> bool {
        let bit = |bit: u32| self.capabilities.is_none_or(|set| set >> bit & 1 != 0);
        bit(capability.bit) || capability.bit == BPF.bit && bit(SYS_ADMIN_BIT)
    }
}

/// Returns the capabilities among `requirements`.
pub(crate) fn capabilities(requirements: &[Requirement]) -> impl Iterator<Item = Capability> {
    requirements.iter().filter_map(|requirement| match *requirement {
        Requirement::Capability(capability) => Some(capability),
        Requirement::File { .. } => None,
    })
}

/// Returns the effective set in the text of /proc/self/status: see proc_pid_status(5).
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}
