//! A case: the work and its switches, and the machine that they make of the parameters.

use super::measurement::Measurement;
use crate::experiment::{Bench, LabError, Parameters};
use wharf_plan::pcie::{BusSpec, Link, LinkError};
use wharf_sim::engine::Random;
use wharf_sim::nic::cx5::compress::Compress;
use wharf_sim::nic::cx5::send_half::Spec;
use wharf_sim::nic::cx5::setup::{Setup, build, build_slim, build_striding};
use wharf_sim::nic::cx5::{half, striding};
use wharf_sim::nic::machine::{CoreCosts, Job};
use wharf_sim::nic::port::{Arrivals, PortCosts};
use wharf_sim::nic::receive::ReceiveCosts;

/// The settings that differ from run to run; all are in the label.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) work: Work,
    pub(super) rx_cqe_compress: bool,
    /// For sockets: `skb_tx_mpwqe`.
    pub(super) xdp_tx_mpwqe: bool,
    pub(super) inline: Inline,
    pub(super) descriptors: Descriptors,
    /// The parameter with the end of a session of compressed completions.
    pub(super) session: &'static str,
}

/// Its value in all rows but those that vary it.
const SESSION: &str = "session_ns";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptors {
    /// The driver's own.
    Mlx5,
    /// Received by strides.
    Striding,
    /// Sent by entries of 16 bytes.
    Slim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inline {
    Off,
    /// By the driver's decision, from the outstanding packets.
    Auto,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Received and dropped.
    Drop,
    /// Received and sent back.
    SendBack,
    /// The same, from one port to the other.
    Redirect,
    /// Sent back, in several sizes.
    Mixed,
    /// One stream, sent.
    Socket,
    /// Many streams, sent on a link of this generation.
    Sockets {
        generation: u64,
        /// At this rate, in packets of a millisecond; `None` for as fast as they can.
        fixed_kpps: Option<u64>,
    },
    /// Received, through all of the stack.
    Stack,
}

impl Work {
    fn name(self) -> String {
        let name = match self {
            Self::Drop => "xdp_drop",
            Self::SendBack => "xdp_tx",
            Self::Redirect => "xdp_redirect",
            Self::Mixed => "imix/xdp_tx",
            Self::Socket => "socket-1",
            Self::Sockets { generation, fixed_kpps } => {
                let rate = if fixed_kpps.is_some() { "fixed" } else { "full" };
                return format!("sockets/gen{generation}/rate={rate}");
            }
            Self::Stack => "stack",
        };
        name.into()
    }

    fn sends(self) -> bool {
        !matches!(self, Self::Drop | Self::Stack)
    }

    fn receives(self) -> bool {
        !self.is_sockets()
    }

    /// True if packets come from sockets.
    fn is_sockets(self) -> bool {
        matches!(self, Self::Socket | Self::Sockets { .. })
    }

    fn job(self, parameters: &Parameters) -> Result<Job, LabError> {
        let get = |key: &str| parameters.get(key);
        Ok(match self {
            Self::Drop | Self::Stack => Job::Drop,
            Self::SendBack | Self::Mixed => {
                Job::SendBack { per_doorbell: get("xdp_tx_per_doorbell")? as usize }
            }
            Self::Redirect => Job::SendBack { per_doorbell: get("redirect_per_doorbell")? as usize },
            Self::Socket | Self::Sockets { .. } => Job::Send {
                len_bytes: get("packet_bytes")? as u32,
                per_doorbell: get(if self == Self::Socket {
                    "socket_per_doorbell"
                } else {
                    "sockets_per_doorbell"
                })? as usize,
            },
        })
    }

    fn cores(self, parameters: &Parameters, multi: bool) -> Result<CoreCosts, LabError> {
        let get = |key: &str| parameters.get(key);
        let packet_ps = match self {
            Self::Drop => get("drop_ps"),
            Self::SendBack | Self::Mixed => get("send_back_ps"),
            Self::Redirect => get("redirect_ps"),
            Self::Stack => get("stack_ps"),
            Self::Sockets { fixed_kpps: Some(kpps), .. } => Ok(get("queues")? * 1_000_000_000 / kpps.max(1)),
            Self::Socket | Self::Sockets { .. } => {
                let cycles = get(if multi { "socket_mpwqe_cycles" } else { "socket_cycles" })?;
                Ok(cycles * 1_000_000_000 / get("socket_clock_khz")?)
            }
        };
        let poll_ps = get(if self.receives() { "poll_ps" } else { "socket_poll_ps" })?;
        Ok(CoreCosts { poll_ps, packet_ps: packet_ps?, wake_ps: get("wake_ps")? })
    }

    /// Returns lengths with checksum, and the number of each.
    fn sizes(self, parameters: &Parameters) -> Result<Vec<(u32, u32)>, LabError> {
        let get = |key: &str| Ok::<u32, LabError>(parameters.get(key)? as u32);
        Ok(match self {
            Self::Mixed => vec![
                (get("mixed_small_bytes")?, get("mixed_small_count")?),
                (get("mixed_middle_bytes")?, get("mixed_middle_count")?),
                (get("mixed_large_bytes")?, get("mixed_large_count")?),
            ],
            _ => vec![(get("packet_bytes")?, 1)],
        })
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Case {
    /// Creates a case of `work` with all switches off.
    pub(super) const fn new(work: Work) -> Self {
        Self {
            work,
            rx_cqe_compress: false,
            xdp_tx_mpwqe: false,
            inline: Inline::Off,
            descriptors: Descriptors::Mlx5,
            session: SESSION,
        }
    }

    /// Returns the label of its rows: the work and every switch that matters to it.
    pub(super) fn label(&self) -> String {
        let mut switches = Vec::new();
        if self.work.receives() {
            switches.push(format!("rx_cqe_compress={}", on_off(self.rx_cqe_compress)));
        }
        if self.descriptors == Descriptors::Striding {
            switches.push("rx_striding_rq=on".into());
        }
        if self.descriptors == Descriptors::Slim {
            switches.push("tx_metadata_in_buffer=on".into());
        } else if self.work.sends() {
            let name = if self.work.is_sockets() { "skb_tx_mpwqe" } else { "xdp_tx_mpwqe" };
            switches.push(format!("{name}={}", on_off(self.xdp_tx_mpwqe)));
        }
        if self.xdp_tx_mpwqe && !self.work.is_sockets() {
            let inline = match self.inline {
                Inline::Off => "off",
                Inline::Auto => "auto",
                Inline::Always => "always",
            };
            switches.push(format!("inline={inline}"));
        }
        format!("{}/{}", self.work.name(), switches.join(","))
    }

    fn setup(&self, parameters: &Parameters, seed: u64) -> Result<Setup, LabError> {
        let get = |key: &str| parameters.get(key);
        let queues = if self.work == Work::Socket { 1 } else { get("queues")? as usize };
        let (wire_ps_per_byte, overhead_bytes) = (get("wire_ps_per_byte")?, get("wire_overhead_bytes")?);
        let sizes = self.work.sizes(parameters)?;
        let arrivals = if self.work.receives() {
            Arrivals::at_wire_rate(sizes, queues, wire_ps_per_byte, overhead_bytes, Random::new(seed))
        } else {
            Arrivals::none()
        };
        let inline_from = match self.inline {
            Inline::Off => None,
            Inline::Auto => Some(get("inline_from_packets")? as usize),
            Inline::Always => Some(0),
        };
        let session_max = get("session_packets")? as u32;
        let (selected, receive_ring) = match self.descriptors {
            Descriptors::Striding => (striding::SELECTED, "striding_completions_log"),
            _ => (half::SELECTED, "receive_ring_log"),
        };
        Ok(Setup {
            queues,
            spec: Spec {
                log_send_blocks: get("send_ring_log")? as u32,
                log_receive: get(receive_ring)? as u32,
                xdp_tx_mpwqe: self.xdp_tx_mpwqe,
                inline_from,
                completion_each: false,
            },
            rx_cqe_compress: self.rx_cqe_compress.then_some(Compress { selected, session_max }),
            port: port_costs(parameters, self)?,
            arrivals,
            job: self.work.job(parameters)?,
            cores: self.work.cores(parameters, self.xdp_tx_mpwqe)?,
        })
    }

    /// Runs the case.
    pub(super) fn run(&self, bench: &mut Bench<'_>) -> Result<Measurement, LabError> {
        let setup = self.setup(bench.parameters, bench.seed)?;
        let settle = if self.work == Work::Stack { "stack_settle_ns" } else { "settle_ns" };
        let (mut label, sent) = (self.label(), self.work.sends());
        if self.session != SESSION {
            label += &format!("/{SESSION}={}", bench.parameters.get(self.session)?);
        }
        match self.descriptors {
            Descriptors::Mlx5 => Measurement::new(bench, label, setup, settle, sent, build),
            Descriptors::Striding => Measurement::new(bench, label, setup, settle, sent, build_striding),
            Descriptors::Slim => Measurement::new(bench, label, setup, settle, sent, build_slim),
        }
    }
}

fn link(parameters: &Parameters, work: Work) -> Result<Link, LabError> {
    let get = |key: &str| parameters.get(key);
    let lanes = get("link_lanes")?;
    let generation = match work {
        Work::Sockets { generation, .. } => generation,
        _ => get("link_generation")?,
    };
    let (mps, mrrs, rcb) = (get("link_mps_bytes")?, get("link_mrrs_bytes")?, get("link_rcb_bytes")?);
    let text = format!("gen{generation}x{lanes},mps={mps},mrrs={mrrs},rcb={rcb}");
    let fault = |error: LinkError| LabError::File { file: "pcie.toml".into(), what: error.to_string() };
    text.parse().map_err(fault)
}

fn port_costs(parameters: &Parameters, case: &Case) -> Result<PortCosts, LabError> {
    let get = |key: &str| parameters.get(key);
    let tags = if matches!(case.work, Work::Sockets { .. }) { "sockets_tags" } else { "tags" };
    Ok(PortCosts {
        bus: BusSpec {
            link: link(parameters, case.work)?,
            tags: get(tags)? as u32,
            latency_ps: get("latency_ns")? * 1000,
        },
        send: parameters.read_into()?,
        receive: ReceiveCosts {
            buffer_bytes: get("nic_buffer_bytes")?,
            fetch_bytes: get("fetch_bytes")? as u32,
            keep_ps: get(case.session)? * 1000,
            posted_packets: get("posted_packets")? as usize,
        },
    })
}
