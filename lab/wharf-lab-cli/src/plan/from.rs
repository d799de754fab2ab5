//! A question about an interface of a machine. Its settings take precedence over the description; the output
//! names the values taken from the description.

use crate::args::PlanArgs;
use serde::Serialize;
use wharf_cli::usage;
use wharf_plan::interface::{self, ByteLimit, Channels, Interface, PcieLink, Rings};
use wharf_plan::nics::{Choice, Description, Mark};
use wharf_plan::pcie::{Generation, Link, LinkError};
use wharf_plan::plan::CORES;

/// The description for an interface whose driver has none.
const UNKNOWN: &str = "simple";

/// An interface, and the values that its description filled in. The keys are a promise.
#[derive(Debug, Serialize)]
pub(super) struct From {
    #[serde(flatten)]
    interface: Interface,
    /// Fields that the interface did not report, taken from the NIC description.
    taken_instead: Vec<String>,
}

/// An interface, its description, and the interface's changes to it.
pub(super) struct Asked {
    pub(super) from: From,
    pub(super) description: Description,
    pub(super) link: Option<Link>,
    pub(super) choice: Choice,
}

/// Reads the interface; `own` is a description asked for.
pub(super) fn ask(args: &PlanArgs, name: &str, own: Option<Description>) -> anyhow::Result<Asked> {
    let interface = interface::read(&args.sysfs, name).map_err(|error| usage(format!("--from {error}")))?;
    let mut taken = Vec::new();
    let is_known = described(&interface).is_some();
    if interface.pcie.is_none() && !is_known && own.is_none() && args.link.is_none() {
        let driver = interface.driver.as_deref().unwrap_or("none");
        return Err(usage(format!(
            "--from {name}: there is no bus: no PCI Express link is behind it (driver {driver}); give --nic or --link to plan \
             with another"
        )));
    }
    let description = match own {
        Some(own) => own,
        None => description_for(&interface, &mut taken)?,
    };
    let link = link_of(&interface, args, &description, &mut taken);
    let choice = choice(&interface, &description, &mut taken);
    if interface.cores.is_none() && args.cores.is_none() {
        taken.push("the number of processors; --cores gives another".into());
    }
    Ok(Asked { from: From { interface, taken_instead: taken }, description, link, choice })
}

/// Returns the description of its driver; of its PCI numbers if that is vfio-pci, for example.
fn described(interface: &Interface) -> Option<Description> {
    let by_driver = interface.driver.as_deref().and_then(Description::of_driver);
    by_driver.or_else(|| Description::of_pci_id(interface.pci_id.as_deref()?))
}

fn description_for(interface: &Interface, taken: &mut Vec<String>) -> anyhow::Result<Description> {
    if let Some(known) = described(interface) {
        return Ok(known);
    }
    let device = device_words(interface, "none");
    taken.push(format!("the NIC: no description is for {device}; {UNKNOWN} stands in, --nic names another"));
    Description::built_in(UNKNOWN).ok_or_else(|| usage("no description"))?.map_err(Into::into)
}

/// Returns the link as read, or the description's; --link takes precedence over both.
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

/// Returns the link as read, with the description's sizes for those that were not.
fn read_link(pcie: &PcieLink, default: Link) -> Result<Link, LinkError> {
    let generation = Generation::from_number(pcie.generation).unwrap_or(default.generation());
    Link::new(generation, pcie.lanes)?
        .mps(pcie.mps_bytes.unwrap_or(default.mps_bytes()))?
        .mrrs(pcie.mrrs_bytes.unwrap_or(default.mrrs_bytes()))?
        .rcb(pcie.rcb_bytes.unwrap_or(default.rcb_bytes()))
}

/// Returns the numbers and flags of the interface.
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
    /// Returns the processors of the machine, as far as it says and a plan can have.
    pub(super) fn cores(&self) -> Option<u32> {
        self.interface.cores.map(|cores| cores.min(*CORES.end() as u32))
    }

    /// Returns the interface in lines of text.
    pub(super) fn words(&self) -> String {
        let interface = &self.interface;
        let mut lines = vec![format!("{}, {}", interface.name, device_words(interface, "unknown"))];
        let mut line = |name: &str, text: String| lines.push(format!("  {name:<14}{text}"));
        if let Some(pcie) = &interface.pcie {
            line("PCIe", pcie_words(pcie));
        }
        if let Some(mbit) = interface.speed_mbit {
            line("wire", format!("{mbit} Mbit/s"));
        }
        if let (Some(tx), Some(rx)) = (interface.tx_queues, interface.rx_queues) {
            line("queues", format!("tx {tx}, rx {rx}"));
        }
        if let Some(cores) = interface.cores {
            line("processors", cores.to_string());
        }
        if let Some(Rings { tx, tx_max, rx, rx_max }) = interface.rings {
            line("rings", format!("tx {tx} of {tx_max}, rx {rx} of {rx_max}"));
        }
        if let Some(Channels { tx, rx, combined }) = interface.channels {
            line("channels", format!("tx {tx}, rx {rx}, combined {combined}"));
        }
        if !interface.private_flags.is_empty() {
            let flags = interface.private_flags.iter();
            let flags = flags.map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" }));
            line("flags", flags.collect::<Vec<_>>().join(", "));
        }
        if let Some(limits) = limits(&interface.byte_limits) {
            line("byte limits", limits);
        }
        interface
            .missing
            .iter()
            .for_each(|missing| line("not read", format!("{}: {}", missing.what, missing.why)));
        self.taken_instead.iter().for_each(|taken| line("taken instead", taken.clone()));
        lines.join("\n")
    }
}

/// Names the driver, or `none` in its place, and the PCI numbers if there are any.
fn device_words(interface: &Interface, none: &str) -> String {
    let driver = interface.driver.as_deref().unwrap_or(none);
    match &interface.pci_id {
        Some(id) => format!("driver {driver}, PCI device {id}"),
        None => format!("driver {driver}"),
    }
}

fn limits(limits: &[ByteLimit]) -> Option<String> {
    let bytes = || limits.iter().map(|limit| limit.limit_bytes);
    let (least, most) = (bytes().min()?, bytes().max()?);
    let bound = limits.iter().map(|limit| limit.limit_max_bytes).min()?;
    let queues = if limits.len() == 1 { "1 queue".into() } else { format!("{} queues", limits.len()) };
    Some(format!("{least} to {most} bytes over {queues}, at most {bound}"))
}

fn pcie_words(link: &PcieLink) -> String {
    let mut parts = vec![format!("gen{}x{}", link.generation, link.lanes)];
    if let (Some(generation), Some(lanes)) = (link.generation_max, link.lanes_max) {
        let less = (generation, lanes) != (link.generation, link.lanes);
        parts.extend(less.then(|| format!("where the device could do gen{generation}x{lanes}")));
    }
    let sizes =
        [("MPS", link.mps_bytes), ("MRRS", link.mrrs_bytes), ("RCB", link.rcb_bytes), ("tags", link.tags)];
    parts.extend(sizes.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))));
    parts.join(", ")
}
