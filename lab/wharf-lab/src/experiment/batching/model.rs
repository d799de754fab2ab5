//! A case, and the machine that it is run on.

use super::super::{Bench, LabError, Parameters};
use crate::models::linux_qdisc::{self, Costs, Queues, Setup, Traffic, far};
use wharf::testing::{Chance, FaultSpec};
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_sim::nic::simple;

/// The NIC, with its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nic {
    Ipoib,
    E1000,
}

impl Nic {
    pub(super) fn name(self) -> &'static str {
        match self {
            Nic::Ipoib => "ipoib",
            Nic::E1000 => "e1000",
        }
    }

    /// Returns the parameter of that name for this NIC.
    fn get(self, key: &str, parameters: &Parameters) -> Result<u64, LabError> {
        parameters.get(&format!("{}_{key}", self.name()))
    }
}

/// The protocol of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    TcpNoDelay,
    Udp,
    /// A message, and the next one after its answer.
    Requests,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::TcpNoDelay => "tcp-nodelay",
            Protocol::Udp => "udp",
            Protocol::Requests => "tcp-requests",
        }
    }
}

/// The batching switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    Off,
    On,
    OnWake,
}

/// The settings of a case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) nic: Nic,
    pub(super) protocol: Protocol,
    pub(super) processes: usize,
    pub(super) cpus: usize,
    pub(super) message_bytes: u64,
    pub(super) switch: Switch,
    /// Frames that fail in the driver, of a million.
    pub(super) errors_ppm: u32,
}

impl Case {
    pub(super) fn label(&self) -> String {
        let Self { nic, protocol, processes, cpus, message_bytes, .. } = self;
        format!("{}/{}/processes={processes}/cpus={cpus}/size={message_bytes}", nic.name(), protocol.name())
    }
}

/// The packets that messages become.
struct Packets {
    payload_bytes: u64,
    /// Messages per thousand packets.
    messages_permille: u64,
}

impl Packets {
    fn of(case: &Case, parameters: &Parameters) -> Result<Self, LabError> {
        let most_bytes = case.nic.get("payload_bytes", parameters)?;
        if case.protocol == Protocol::Tcp {
            return Ok(Self {
                payload_bytes: most_bytes,
                messages_permille: most_bytes * 1000 / case.message_bytes,
            });
        }
        let count = case.message_bytes.div_ceil(most_bytes);
        Ok(Self { payload_bytes: case.message_bytes / count, messages_permille: 1000 / count })
    }

    /// Returns the time of the program and its calls for one.
    fn make_ns(&self, parameters: &Parameters) -> Result<u64, LabError> {
        let calls_ns = self.messages_permille * parameters.get("message_ns")? / 1000;
        Ok(calls_ns + self.payload_bytes * parameters.get("copy_ps_per_byte")? / 1000)
    }
}

/// Sums over all runs of a case.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) payload_bytes: u64,
    pub(super) packets: u64,
    pub(super) failed: u64,
    pub(super) busy_ns: u64,
    pub(super) measured_ns: u64,
    pub(super) calls: u64,
    pub(super) given: u64,
}

/// Runs a case with several seeds. Returns the sums.
pub(super) fn runs(bench: &mut Bench<'_>, case: &Case) -> Result<Sums, LabError> {
    let parameters = bench.parameters;
    let payload_bytes = Packets::of(case, parameters)?.payload_bytes;
    let settings = parameters.settings().of(case.nic.name());
    let settings = settings.with("doorbell_ps", case.nic.get("serve_ps", parameters)?);
    let nic = simple::Costs { written_back_together: case.nic == Nic::Ipoib, ..settings.read()? };
    let setup = |seed| setup(parameters, case, seed);
    let mut sums = Sums::default();
    for outcome in bench.runs(&case.label(), setup, |setup, goes_on| linux_qdisc::run(setup, nic, goes_on))? {
        bench.packets += outcome.packets_in_all;
        sums.payload_bytes += outcome.packets * payload_bytes;
        sums.packets += outcome.packets;
        sums.failed += outcome.failed;
        sums.busy_ns += outcome.user_ns + outcome.system_ns + outcome.soft_ns;
        sums.measured_ns += outcome.measured_ns;
        sums.calls += outcome.doorbells;
        sums.given += outcome.given;
    }
    Ok(sums)
}

fn setup(parameters: &Parameters, case: &Case, seed: u64) -> Result<Setup, LabError> {
    let get = |key: &str| parameters.get(key);
    let packets = Packets::of(case, parameters)?;
    let frame_bytes = packets.payload_bytes + get("header_bytes")?;
    let window = window_of_all(parameters, case, frame_bytes)?;
    let errors = FaultSpec { seed, error: Chance::Millionths(case.errors_ppm), ..FaultSpec::default() };
    Ok(Setup {
        cpus: case.cpus,
        queues: Queues::One,
        byte_limit: false,
        wake_only: case.switch == Switch::OnWake,
        errors: (case.errors_ppm > 0).then_some(errors),
        streams: case.processes,
        frame_bytes: frame_bytes as u32,
        traffic: traffic(parameters, case, &packets, window)?,
        far: (get("far_host")? > 0).then_some(far(parameters, case.nic, &packets)?),
        batching: if case.switch == Switch::Off { Batching::Off } else { Batching::On },
        ring_frames: case.nic.get("ring_frames", parameters)? as usize,
        // A quota came in 2011, need_resched and a jiffy in 2008.
        policy: Policy { quota_packets: u32::MAX, time_ns: None },
        wake_free_frames: case.nic.get("wake_free_frames", parameters)? as usize,
        // Windows stay at the size that drops would give them, so no drop is modelled.
        qdisc_packets: window.max(case.processes as u64) as usize,
        hold_ns: 1_000_000_000,
        costs: costs(parameters, case.nic)?,
        time: parameters.timing(seed)?,
    })
}

/// Returns the packets of all windows together. The qdisc is then about to drop at its tail, where TCP stops
/// growing: the packets that qdisc and ring hold, and those in flight meanwhile.
fn window_of_all(parameters: &Parameters, case: &Case, frame_bytes: u64) -> Result<u64, LabError> {
    let nic = |key| case.nic.get(key, parameters);
    let packet_ps = nic("serve_ps")?.max(frame_bytes * nic("wire_ps_per_byte")?).max(1);
    let outside = parameters.get("round_trip_ns")? * 1000 / packet_ps;
    Ok(nic("qdisc_packets")? + nic("ring_frames")? + outside)
}

fn traffic(
    parameters: &Parameters, case: &Case, packets: &Packets, window: u64,
) -> Result<Traffic, LabError> {
    let get = |key: &str| parameters.get(key);
    let make_ns = packets.make_ns(parameters)?;
    let window_packets = get("window_packets")?.min(window / case.processes as u64).max(1) as u32;
    if case.protocol == Protocol::Udp {
        return Ok(Traffic { make_ns: make_ns + get("udp_send_ns")?, window_packets, tcp: None });
    }
    let tcp = parameters.settings().of("tcp").with("ack_shift", 0).read()?;
    let window_packets = if case.protocol == Protocol::Requests { 1 } else { window_packets };
    Ok(Traffic { make_ns, window_packets, tcp: Some(tcp) })
}

/// Returns the costs of the far host, another of the same: a step takes there as long as here. Receiving a
/// packet costs as much as an acknowledgement, and acknowledging every second one as much as sending a
/// packet.
fn far(parameters: &Parameters, nic: Nic, packets: &Packets) -> Result<far::Costs, LabError> {
    let here = costs(parameters, nic)?;
    let get = |key: &str| parameters.get(key);
    let ack_sent_ns = get("tcp_send_ns")?
        + here.enqueue_ns
        + here.dequeue_ns
        + 2 * here.lock.pair_ns
        + here.driver_ns
        + here.doorbell_drain_ns;
    Ok(far::Costs {
        interrupt_ns: here.interrupt_ns,
        receive_ns: get("tcp_ack_ns")? + (here.reclaim_ns + here.completion_ns) / 2,
        wake_ns: here.wake_ns,
        switch_ns: here.switch_ns,
        read_ns: get("message_ns")?,
        packet_ns: packets.payload_bytes * get("copy_ps_per_byte")? / 1000 + ack_sent_ns / 2,
    })
}

/// Returns the costs of this host. A stream's packets stay in order by its socket's lock, which is not
/// modelled; the fair lock of the default stands in its place.
fn costs(parameters: &Parameters, nic: Nic) -> Result<Costs, LabError> {
    let settings = parameters.settings().of(nic.name());
    settings.with("doorbell_drain_ns", nic.get("post_ns", parameters)?).read()
}
