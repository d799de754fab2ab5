//! Findings about `verbs:`, for a diagnosis.

use super::address::text_of;
use super::options::options;
use super::port::usable_gids;
use crate::ibverbs::{Context, Library};
use wharf_devices::doctor::{Doctor, Effect, Finding, host};
use wharf_devices::spec::{DeviceSpec, Direction};

/// The kind's part in a diagnosis. Opening a queue pair disturbs nothing.
pub(super) const DOCTOR: Doctor = Doctor { findings, effect: |_, _| Effect::None };

fn findings(spec: &DeviceSpec) -> Vec<Finding> {
    let mut findings = host::files(spec.kind());
    match Library::load() {
        Err(error) => {
            let what = format!("libibverbs cannot be loaded: {error}");
            let mend = "sudo apt install libibverbs1 ibverbs-providers";
            findings.push(Finding::obstacle("library", Direction::Both, what).mend(mend));
        }
        Ok(library) => {
            findings.push(Finding::fact("library", "libibverbs is loaded"));
            findings.extend(device(spec, library));
        }
    }
    findings.extend(host::locked_memory());
    findings
}

fn device(spec: &DeviceSpec, library: Library) -> Vec<Finding> {
    let (name, known) = (spec.place(), library.devices().unwrap_or_default());
    if !known.iter().any(|known| known == name) {
        let mend = "rdma link add NAME type rxe netdev INTERFACE";
        let what = match &known[..] {
            [] => format!("there is no {name}, nor another RDMA device"),
            known => format!("there is no {name}; there are {}", known.join(", ")),
        };
        return vec![Finding::obstacle("device", Direction::Both, what).mend(mend)];
    }
    match Context::open(library, name) {
        Ok(context) => port(spec, &context),
        Err(error) => {
            let what = format!("{name} cannot be opened: {error}");
            let mend = "ls -l /dev/infiniband; `rdma system` says whether its namespace is this one";
            vec![Finding::obstacle("device", Direction::Both, what).mend(mend)]
        }
    }
}

/// Returns the findings on the port: its state, the longest frame, and its GIDs.
fn port(spec: &DeviceSpec, context: &Context) -> Vec<Finding> {
    let (name, Ok(options)) = (spec.place(), options(spec)) else { return Vec::new() };
    let number = options.port;
    let Ok(state) = context.port(number) else {
        let what = format!("{name} has no port {number}");
        return vec![Finding::obstacle("port", Direction::Both, what).mend("rdma link")];
    };
    let layer = if state.is_ethernet { "Ethernet (RoCE)" } else { "InfiniBand" };
    let longest_bytes = state.mtu_bytes + super::encapsulation::HEADER_AT as u32;
    let what = format!("port {number} of {name} is on {layer}: frames of up to {longest_bytes} bytes");
    let finding = match state.is_active {
        true => Finding::fact("port", what.clone()),
        false => Finding::obstacle("port", Direction::Both, format!("port {number} of {name} is not active"))
            .mend("rdma link; ip link set INTERFACE up"),
    };
    let finding = match state.is_ethernet {
        true => finding,
        false => Finding::obstacle("port", Direction::Both, format!("{what}; verbs: wants RoCE"))
            .mend("use IPoIB's interface with packet:"),
    };
    let mut findings = vec![finding.with("active", state.is_active).with("mtu_bytes", state.mtu_bytes)];
    if longest_bytes < 1514 && state.is_ethernet {
        let what = format!(
            "frames of more than {longest_bytes} bytes fail as too-long: the port's MTU is the next lower of 1024, 2048 and 4096 below its interface's"
        );
        findings.push(Finding::hint("mtu", what).mend("ip link set INTERFACE mtu 4200"));
    }
    let gids: Vec<String> = usable_gids(context, name, number, &state)
        .map(|(index, gid)| format!("{index}: {}", text_of(&gid)))
        .collect();
    findings.push(match gids.is_empty() {
        true => Finding::obstacle("gid", Direction::Both, format!("port {number} of {name} has no GID"))
            .mend("ip address add ADDRESS dev INTERFACE"),
        false => {
            let all = gids.join(", ");
            Finding::fact("gid", format!("peers name this end by a GID: {all}")).with("gids", all)
        }
    });
    findings
}
