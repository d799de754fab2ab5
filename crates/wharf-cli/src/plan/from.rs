//! A question about the interface of a machine: what it says goes before the description, and what it does not
//! say is taken from there, and told.

use crate::args::PlanArgs;
use crate::usage;
use serde::Serialize;
use wharf_plan::interface::{self, Interface, PcieLink};
use wharf_plan::nics::{Choice, Description, Mark};
use wharf_plan::pcie::{Generation, Link, LinkError};

/// For an interface whose driver no description is for.
const UNKNOWN: &str = "simple";

/// What an interface says.
#[derive(Debug, Serialize)]
pub(super) struct From {
    pub(super) interface: String,
    pub(super) driver: Option<String>,
    pub(super) pcie: Option<Pcie>,
    pub(super) speed_mbit: Option<u64>,
    pub(super) tx_queues: Option<u32>,
    pub(super) rx_queues: Option<u32>,
    pub(super) rings: Option<Rings>,
    pub(super) channels: Option<Channels>,
    pub(super) private_flags: Vec<Flag>,
    pub(super) bql: Vec<ByteLimit>,
    /// What could not be read.
    pub(super) missing: Vec<Missing>,
    /// What is not the interface's, therefore, but the description's.
    pub(super) taken_instead: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Pcie {
    pub(super) generation: u32,
    pub(super) lanes: u32,
    pub(super) generation_max: Option<u32>,
    pub(super) lanes_max: Option<u32>,
    pub(super) mps_bytes: Option<u32>,
    pub(super) mrrs_bytes: Option<u32>,
    pub(super) rcb_bytes: Option<u32>,
    pub(super) tags: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct Rings {
    pub(super) tx: u32,
    pub(super) tx_max: u32,
    pub(super) rx: u32,
    pub(super) rx_max: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Channels {
    pub(super) tx: u32,
    pub(super) rx: u32,
    pub(super) combined: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Flag {
    pub(super) name: String,
    pub(super) on: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ByteLimit {
    pub(super) queue: u32,
    pub(super) limit_bytes: u64,
    pub(super) limit_min_bytes: u64,
    pub(super) limit_max_bytes: u64,
    pub(super) inflight_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) what: &'static str,
    pub(super) why: String,
}

/// An interface, the description for it, and what the one changes in the other.
pub(super) struct Asked {
    pub(super) from: From,
    pub(super) description: Description,
    pub(super) link: Option<Link>,
    pub(super) choice: Choice,
}

/// Reads the interface; `own` is the description that was asked for.
pub(super) fn ask(args: &PlanArgs, name: &str, own: Option<Description>) -> anyhow::Result<Asked> {
    let interface = interface::read(&args.sysfs, name).map_err(|error| usage(format!("--from {error}")))?;
    let mut taken = Vec::new();
    let description = match own {
        Some(own) => own,
        None => description_for(&interface, &mut taken)?,
    };
    let link = link_of(&interface, args, &description, &mut taken);
    let choice = choice(&interface, &description, &mut taken);
    Ok(Asked { from: From::new(interface, taken), description, link, choice })
}

fn description_for(interface: &Interface, taken: &mut Vec<String>) -> anyhow::Result<Description> {
    if let Some(known) = interface.driver.as_deref().and_then(Description::of_driver) {
        return Ok(known);
    }
    let driver = interface.driver.as_deref().unwrap_or("none");
    taken.push(format!(
        "the NIC: no description is for driver {driver}; {UNKNOWN} stands in, --nic names another"
    ));
    Description::built_in(UNKNOWN).ok_or_else(|| usage("no description"))?.map_err(Into::into)
}

/// The link: read, or the description's. What --link says goes before both.
fn link_of(
    interface: &Interface, args: &PlanArgs, description: &Description, taken: &mut Vec<String>,
) -> Option<Link> {
    if args.link.is_some() {
        return args.link;
    }
    let default = description.nic(&Choice::default()).ok()?.link;
    let by_file =
        |why| format!("the link: {default}, as {} has it{why}; --link gives another", description.file());
    let Some(pcie) = &interface.pcie else {
        taken.push(by_file(String::new()));
        return None;
    };
    let link = match read_link(pcie, default) {
        Ok(link) => link,
        Err(error) => {
            taken.push(by_file(format!(" ({error})")));
            return None;
        }
    };
    let sizes = [
        ("MPS", pcie.mps_bytes, link.mps_bytes()),
        ("MRRS", pcie.mrrs_bytes, link.mrrs_bytes()),
        ("RCB", pcie.rcb_bytes, link.rcb_bytes()),
    ];
    let missing =
        sizes.iter().filter(|size| size.1.is_none()).map(|(name, _, used)| format!("{name} {used}"));
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        taken.push(missing.join(", "));
    }
    Some(link)
}

/// What was read, the description's sizes where they were not.
fn read_link(pcie: &PcieLink, default: Link) -> Result<Link, LinkError> {
    let generation = Generation::from_number(pcie.generation).unwrap_or(default.generation());
    Link::new(generation, pcie.lanes)?
        .mps(pcie.mps_bytes.unwrap_or(default.mps_bytes()))?
        .mrrs(pcie.mrrs_bytes.unwrap_or(default.mrrs_bytes()))?
        .rcb(pcie.rcb_bytes.unwrap_or(default.rcb_bytes()))
}

/// Numbers and flags that the interface has.
fn choice(interface: &Interface, description: &Description, taken: &mut Vec<String>) -> Choice {
    let mut choice = Choice::default();
    let mut set = |key: &str, value: Option<u64>, source: &str, words: &str| match value {
        Some(value) => choice.sets.push((key.into(), value.to_string(), Mark::Read, source.into())),
        None => taken.push(format!("{words}, as {} has it", description.file())),
    };
    let bits = interface.speed_mbit.map(|mbit| mbit.saturating_mul(1_000_000));
    set("wire_bits_per_second", bits, "sysfs: speed", "the wire's speed");
    let queues = interface.tx_queues.into_iter().chain(interface.rx_queues).min();
    set("queues", queues.map(u64::from), "sysfs: queues", "the number of queues");
    let tags = interface.pcie.as_ref().and_then(|pcie| pcie.tags);
    set("tags", tags.map(u64::from), "configuration space: device control", "the number of tags");
    let known = |name: &str| description.features().iter().any(|feature| feature.name == name);
    choice.found = interface.private_flags.iter().filter(|flag| known(&flag.0)).cloned().collect();
    choice
}

impl From {
    fn new(interface: Interface, taken_instead: Vec<String>) -> Self {
        let rings = interface.rings.map(|rings| Rings {
            tx: rings.tx,
            tx_max: rings.tx_max,
            rx: rings.rx,
            rx_max: rings.rx_max,
        });
        let channels = |one: interface::Channels| Channels { tx: one.tx, rx: one.rx, combined: one.combined };
        let limit = |limit: interface::ByteLimit| ByteLimit {
            queue: limit.queue,
            limit_bytes: limit.limit_bytes,
            limit_min_bytes: limit.limit_min_bytes,
            limit_max_bytes: limit.limit_max_bytes,
            inflight_bytes: limit.inflight_bytes,
        };
        let missing = |missing: interface::Missing| Missing { what: missing.what, why: missing.why };
        Self {
            interface: interface.name,
            driver: interface.driver,
            pcie: interface.pcie.map(Pcie::new),
            speed_mbit: interface.speed_mbit,
            tx_queues: interface.tx_queues,
            rx_queues: interface.rx_queues,
            rings,
            channels: interface.channels.map(channels),
            private_flags: interface.private_flags.into_iter().map(|(name, on)| Flag { name, on }).collect(),
            bql: interface.byte_limits.into_iter().map(limit).collect(),
            missing: interface.missing.into_iter().map(missing).collect(),
            taken_instead,
        }
    }

    /// Lines for people.
    pub(super) fn words(&self) -> String {
        let mut lines =
            vec![format!("{}, driver {}", self.interface, self.driver.as_deref().unwrap_or("unknown"))];
        let mut line = |name: &str, text: String| lines.push(format!("  {name:<14}{text}"));
        if let Some(pcie) = &self.pcie {
            line("PCIe", pcie.words());
        }
        if let Some(mbit) = self.speed_mbit {
            line("wire", format!("{mbit} Mbit/s"));
        }
        if let (Some(tx), Some(rx)) = (self.tx_queues, self.rx_queues) {
            line("queues", format!("tx {tx}, rx {rx}"));
        }
        if let Some(Rings { tx, tx_max, rx, rx_max }) = self.rings {
            line("rings", format!("tx {tx} of {tx_max}, rx {rx} of {rx_max}"));
        }
        if let Some(Channels { tx, rx, combined }) = self.channels {
            line("channels", format!("tx {tx}, rx {rx}, combined {combined}"));
        }
        if !self.private_flags.is_empty() {
            let flags = self
                .private_flags
                .iter()
                .map(|flag| format!("{} {}", flag.name, if flag.on { "on" } else { "off" }));
            line("flags", flags.collect::<Vec<_>>().join(", "));
        }
        if let Some(limits) = self.limits() {
            line("byte limits", limits);
        }
        self.missing
            .iter()
            .for_each(|missing| line("not read", format!("{}: {}", missing.what, missing.why)));
        self.taken_instead.iter().for_each(|taken| line("taken instead", taken.clone()));
        lines.join("\n")
    }

    fn limits(&self) -> Option<String> {
        let limits = || self.bql.iter().map(|limit| limit.limit_bytes);
        let (least, most) = (limits().min()?, limits().max()?);
        let bound = self.bql.iter().map(|limit| limit.limit_max_bytes).min()?;
        let queues =
            if self.bql.len() == 1 { "1 queue".into() } else { format!("{} queues", self.bql.len()) };
        Some(format!("{least} to {most} bytes over {queues}, at most {bound}"))
    }
}

impl Pcie {
    fn new(link: PcieLink) -> Self {
        Self {
            generation: link.generation,
            lanes: link.lanes,
            generation_max: link.at_most.map(|most| most.0),
            lanes_max: link.at_most.map(|most| most.1),
            mps_bytes: link.mps_bytes,
            mrrs_bytes: link.mrrs_bytes,
            rcb_bytes: link.rcb_bytes,
            tags: link.tags,
        }
    }

    fn words(&self) -> String {
        let mut parts = vec![format!("gen{}x{}", self.generation, self.lanes)];
        if let (Some(generation), Some(lanes)) = (self.generation_max, self.lanes_max) {
            let less = (generation, lanes) != (self.generation, self.lanes);
            parts.extend(less.then(|| format!("where the device could do gen{generation}x{lanes}")));
        }
        let sizes = [
            ("MPS", self.mps_bytes),
            ("MRRS", self.mrrs_bytes),
            ("RCB", self.rcb_bytes),
            ("tags", self.tags),
        ];
        parts.extend(sizes.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))));
        parts.join(", ")
    }
}
