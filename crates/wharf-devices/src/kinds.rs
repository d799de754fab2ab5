//! The kinds of devices: what each is, and whether this machine can open it now.

use std::path::Path;

/// Kinds that can be opened.
pub(crate) const BUILT: [&str; 9] =
    ["null", "wire", "pcap", "packet", "xdp", "tap", "udp", "vhost-user", "virtio-user"];
/// Kinds that are to come.
pub(crate) const PLANNED: [&str; 0] = [];

/// A kind of device, as it stands on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name, with which specifications begin.
    pub name: &'static str,
    /// How its specifications look.
    pub spec: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What it needs.
    pub needs: &'static str,
    /// Whether it is built yet.
    pub built: bool,
    /// What is lacking here for it, as far as that shows without opening it.
    pub lacking: Vec<Lacking>,
}

/// Something that is lacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// What.
    pub what: String,
    /// The command that mends it.
    pub mend: String,
}

impl Kind {
    /// Whether this machine can open it now, as far as that shows without doing so.
    pub fn is_ready(&self) -> bool {
        self.built && self.lacking.is_empty()
    }
}

/// All kinds, those that are not built yet last.
pub fn kinds() -> Vec<Kind> {
    let machine = Machine::look();
    TABLE.iter().map(|row| row.kind(&machine)).collect()
}

/// A privilege of Linux: see capabilities(7).
#[derive(Debug, Clone, Copy)]
struct Capability {
    name: &'static str,
    bit: u32,
}

const NET_ADMIN: Capability = Capability { name: "cap_net_admin", bit: 12 };
const NET_RAW: Capability = Capability { name: "cap_net_raw", bit: 13 };
const BPF: Capability = Capability { name: "cap_bpf", bit: 39 };
/// Stands in for CAP_BPF, which was split off it.
const SYS_ADMIN_BIT: u32 = 21;
const TUN: &str = "/dev/net/tun";

struct Row {
    name: &'static str,
    spec: &'static str,
    what: &'static str,
    needs: &'static str,
    capabilities: &'static [Capability],
    tun: bool,
}

const fn free(name: &'static str, spec: &'static str, what: &'static str, needs: &'static str) -> Row {
    Row { name, spec, what, needs, capabilities: &[], tun: false }
}

const TABLE: [Row; BUILT.len() + PLANNED.len()] = [
    free("null", "null", "takes everything, infinitely fast", "nothing"),
    free(
        "wire",
        "wire[:rate=10gbit,delay=1ms,ring=1024,overhead=24]",
        "two ends in one process, lossless",
        "nothing",
    ),
    free(
        "pcap",
        "pcap:FILE[,resolution=ns|us,order=le|be] to write, pcap:FILE[,snapped=refuse|pad|send] to read",
        "a capture file",
        "nothing",
    ),
    Row {
        name: "packet",
        spec: "packet:INTERFACE[,bypass=off|on,ring=1024] to send, packet:INTERFACE[,gso=cut|keep,buffer=32m,promisc=on|off] to receive",
        what: "a raw socket on an interface",
        needs: "CAP_NET_RAW",
        capabilities: &[NET_RAW],
        tun: false,
    },
    Row {
        name: "xdp",
        spec: "xdp:INTERFACE[,queue=0,mode=auto|copy|zerocopy] to send, with [,csum=fill|off] to receive",
        what: "AF_XDP on a queue of an interface",
        needs: "CAP_NET_RAW; to receive, also CAP_NET_ADMIN and CAP_BPF",
        capabilities: &[NET_RAW, NET_ADMIN, BPF],
        tun: false,
    },
    Row {
        name: "tap",
        spec: "tap:NAME[,offload=on|off,multi_queue=off|on,mtu=1500,ring=500,sndbuf=64k,persist=off|on], both ways",
        what: "a virtual interface of the kernel, with offloads",
        needs: "CAP_NET_ADMIN, /dev/net/tun",
        capabilities: &[NET_ADMIN],
        tun: true,
    },
    free(
        "udp",
        "udp:HOST:PORT[,dest=socket|frame,gso=on|off,gro=off|on,buffer=8m]",
        "UDP payloads through a kernel socket",
        "nothing",
    ),
    free(
        "vhost-user",
        "vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off], both ways",
        "a virtio-net device, for a virtual machine or another driver",
        "nothing; client=on: a driver that listens",
    ),
    free(
        "virtio-user",
        "virtio-user:SOCKET[,server=off|on,reconnect=off|on,queues=1,packed=off|on,in_order=auto|on|off,mrg_rxbuf=auto|on|off,offload=on|off,size=256,napi=on|off|timer,clean=here|anywhere], both ways",
        "a virtio-net driver, over a vhost-user back end",
        "a back end that listens; server=on: one that connects",
    ),
];

/// What matters of this machine and process.
#[derive(Debug, Clone)]
struct Machine {
    /// Effective capabilities; `None` when they are not to be learnt.
    capabilities: Option<u64>,
    has_tun: bool,
    program: String,
}

impl Machine {
    fn look() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let program =
            std::env::current_exe().map_or_else(|_| "wharf".into(), |path| path.display().to_string());
        Self { capabilities: effective(&status), has_tun: Path::new(TUN).exists(), program }
    }

    fn has(&self, capability: &Capability) -> bool {
        let bit = |bit: u32| self.capabilities.is_none_or(|set| set >> bit & 1 != 0);
        bit(capability.bit) || capability.bit == BPF.bit && bit(SYS_ADMIN_BIT)
    }
}

/// The effective set in the text of /proc/self/status: see proc_pid_status(5).
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

impl Row {
    fn kind(&self, machine: &Machine) -> Kind {
        let Self { name, spec, what, needs, .. } = *self;
        Kind { name, spec, what, needs, built: BUILT.contains(&name), lacking: self.lacking(machine) }
    }

    fn lacking(&self, machine: &Machine) -> Vec<Lacking> {
        let missing = self.capabilities.iter().filter(|capability| !machine.has(capability));
        let names: Vec<&str> = missing.map(|capability| capability.name).collect();
        let mut lacking = Vec::new();
        if !names.is_empty() {
            let upper = names.join(", ").to_uppercase();
            // setcap replaces the program's set: all that the kind needs must be in it.
            let all: Vec<&str> = self.capabilities.iter().map(|capability| capability.name).collect();
            let mend = format!("sudo setcap {}+ep {}", all.join(","), machine.program);
            lacking.push(Lacking { what: format!("no {upper}"), mend });
        }
        if self.tun && !machine.has_tun {
            lacking.push(Lacking { what: format!("no {TUN}"), mend: "sudo modprobe tun".into() });
        }
        lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(capabilities: u64, has_tun: bool) -> Machine {
        Machine { capabilities: Some(capabilities), has_tun, program: "/bin/wharf".into() }
    }

    fn lacking(name: &str, machine: &Machine) -> Vec<(String, String)> {
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        row.lacking(machine).into_iter().map(|lack| (lack.what, lack.mend)).collect()
    }

    #[test]
    fn every_kind_is_listed_once_and_the_built_ones_lack_nothing() {
        let kinds = kinds();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        assert_eq!(names, [&BUILT[..], &PLANNED[..]].concat());
        for kind in &kinds {
            assert!(kind.spec.starts_with(kind.name));
            assert_eq!(kind.built, BUILT.contains(&kind.name));
            let needs_nothing = kind.needs == "nothing";
            assert!(kind.is_ready() || !kind.built || !needs_nothing, "{kind:?}");
        }
    }

    #[test]
    fn what_is_lacking_is_named_with_its_remedy() {
        let nobody = machine(0, false);
        let pair = |what: &str, mend: &str| (what.to_string(), mend.to_string());
        assert_eq!(lacking("null", &nobody), []);
        assert_eq!(
            lacking("packet", &nobody),
            [pair("no CAP_NET_RAW", "sudo setcap cap_net_raw+ep /bin/wharf")]
        );
        assert_eq!(
            lacking("tap", &nobody),
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
        let unknown = Machine { capabilities: None, has_tun: true, program: String::new() };
        assert_eq!(lacking("packet", &unknown), [], "what cannot be learnt is not claimed to be lacking");
    }
}
