//! Requirements that a machine lacks, and their remedies.

use wharf_devices::registry::Registry;
use wharf_devices::requirements::Machine;

fn machine(capabilities: u64, has_tun: bool) -> Machine {
    let status = format!("Name:\tx\nCapEff:\t{capabilities:016x}\nCapBnd:\t0\n");
    Machine::of(&status, if has_tun { |path| path == "/dev/net/tun" } else { |_| false }, "/bin/wharf".into())
}

fn lacking(name: &str, machine: &Machine) -> Vec<(String, String)> {
    let registry = Registry::default();
    let kind = registry.kinds().iter().find(|kind| kind.name == name).unwrap();
    machine.lacking(kind.requirements).into_iter().map(|lack| (lack.what, lack.mend)).collect()
}

#[test]
fn a_lacking_requirement_is_named_with_its_remedy() {
    let bare = machine(0, false);
    let pair = |what: &str, mend: &str| (what.to_string(), mend.to_string());
    assert_eq!(lacking("null", &bare), []);
    assert_eq!(lacking("packet", &bare), [pair("no CAP_NET_RAW", "sudo setcap cap_net_raw+ep /bin/wharf")]);
    assert_eq!(
        lacking("tap", &bare),
        [
            pair("no CAP_NET_ADMIN", "sudo setcap cap_net_admin+ep /bin/wharf"),
            pair("no /dev/net/tun", "sudo modprobe tun")
        ]
    );
    assert_eq!(
        lacking("xdp", &machine(1 << 13, true)),
        [pair("no CAP_NET_ADMIN, CAP_BPF", "sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep /bin/wharf")]
    );
    assert_eq!(lacking("xdp", &machine(1 << 12 | 1 << 13 | 1 << 21, true)), []);
    assert_eq!(lacking("tap", &machine(u64::MAX, true)), []);
    let contained = Machine::of("CapEff:\t0\n", |path| path == "/.dockerenv", "wharf".into());
    let mend = "--cap-add NET_RAW at the container's start";
    assert_eq!(lacking("packet", &contained), [pair("no CAP_NET_RAW", mend)]);
    // Docker takes one capability in each option.
    let mend = "--cap-add NET_RAW --cap-add NET_ADMIN --cap-add BPF at the container's start";
    assert_eq!(lacking("xdp", &contained), [pair("no CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF", mend)]);
}

#[test]
fn unknown_requirements_do_not_count_as_lacking() {
    for status in ["", "CapEff:\tzz", "CapPrm:\t1"] {
        assert_eq!(lacking("packet", &Machine::of(status, |_| true, String::new())), []);
    }
}

#[test]
fn a_user_namespace_gives_no_capability_to_load_programs() {
    let all = machine(u64::MAX, true);
    let contained = all.clone().in_namespace_of("         0       1000          1\n");
    let said = lacking("xdp", &contained);
    assert!(said.len() == 1 && said[0].0.contains("CAP_BPF") && said[0].1.contains("outside"), "{said:?}");
    assert_eq!(lacking("packet", &contained), []);
    for first in ["         0          0 4294967295\n", ""] {
        assert_eq!(lacking("xdp", &all.clone().in_namespace_of(first)), [], "{first:?}");
    }
}
