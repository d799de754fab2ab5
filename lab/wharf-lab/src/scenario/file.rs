//! The file of a scenario.

use super::{Folder, Machine};
use crate::comparators::histogram::Histogram;
use crate::experiment::{LabError, Row};
use serde::Deserialize;
use wharf_core::bql::Bounds;
use wharf_core::owner::Policy;
use wharf_core::qdisc::{QdiscRegistry, QdiscSetup, QdiscSpec};
use wharf_core::units;
use wharf_devices::wire::ETHERNET_OVERHEAD_BYTES;
use wharf_plan::nics::{Choice, Description};
use wharf_sim::flows::arrivals::Arrivals;

/// The last band that a packet can name.
const BAND_MAX: u8 = 6;
/// Most senders of a scenario.
const SENDERS_MAX: usize = 256;
/// The longest time in virtual time: at tens of millions of packets a second it takes a minute.
const TIME_MAX_NS: u64 = 2_000_000_000;

/// A scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The file's name, for errors and tables.
    pub file: String,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
    /// The groups of senders.
    pub senders: Vec<Sender>,
    /// The discipline.
    pub qdisc: QdiscSpec,
    /// The thread that owns the queue.
    pub owner: Owner,
    /// Bounds of one ownership.
    pub policy: Policy,
    /// Bounds of the byte limit.
    pub byte_limits: Bounds,
    /// Most bytes of one sender inside; the outer `None` for the discipline's default.
    pub small_queues: Option<Option<u32>>,
    /// The line; none for a device that takes no time.
    pub link: Option<Link>,
    /// Time in which the NIC serves a doorbell, by the planner's description of it.
    pub doorbell_ps: u64,
    /// The machine's costs.
    pub machine: Machine,
    /// Published figures, which its own stand beside.
    pub published: Vec<Published>,
}

/// Senders of one kind.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The number of them.
    pub count: usize,
    /// Packets handed over at a time.
    pub burst: usize,
    /// Length of a frame without its checksum.
    pub bytes: u32,
    /// The times at which they have packets.
    pub arrivals: Arrivals,
    /// The band of their packets, for disciplines with bands; `None` for the discipline's choice.
    pub band: Option<u8>,
}

/// A published figure of the scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The figure's name, of all senders together.
    pub figure: String,
    /// Its value.
    pub value: f64,
    /// Where it was published.
    pub source: String,
}

/// The owner of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The senders, one at a time.
    #[default]
    Senders,
    /// A thread of its own.
    Dedicated,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its rate.
    pub bits_per_second: u64,
    /// Descriptors of the device.
    pub ring_frames: u32,
}

impl Link {
    /// Returns the time of a byte in picoseconds.
    pub fn ps_per_byte(&self) -> u64 {
        (8_000_000_000_000 / self.bits_per_second.max(1)).max(1)
    }

    /// Returns the bytes that a frame takes on the line.
    pub fn wire_bytes(len_bytes: u32) -> u64 {
        u64::from(len_bytes.max(60) + ETHERNET_OVERHEAD_BYTES)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "settle")]
    settle: String,
    #[serde(default = "measure")]
    measure: String,
    sender: Vec<SenderText>,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    queue: Queue,
    link: Option<LinkText>,
    nic: Option<String>,
    machine: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SenderText {
    count: usize,
    burst: usize,
    bytes: u32,
    arrivals: String,
    band: Option<u8>,
}

impl Default for SenderText {
    fn default() -> Self {
        Self { count: 1, burst: 32, bytes: 60, arrivals: "saturate".into(), band: None }
    }
}

impl SenderText {
    /// Reads the arrivals, from a capture if they name one.
    fn read(self, folder: &Folder) -> Result<Sender, String> {
        let Self { count, burst, bytes, arrivals, band } = self;
        let arrivals = match arrivals.strip_prefix("pcap:") {
            None => arrivals.parse()?,
            Some(name) => {
                let times = folder.times_ns(name)?;
                if times.len() < burst {
                    return Err(format!("{name}: {} packets are less than a burst of {burst}", times.len()));
                }
                Arrivals::Trace(times.into())
            }
        };
        Ok(Sender { count, burst, bytes, arrivals, band })
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Queue {
    qdisc: Option<String>,
    owner: Owner,
    quota: Option<u32>,
    byte_limit: Option<bool>,
    small_queues: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    rate: String,
    #[serde(default = "ring")]
    ring: u32,
}

fn settle() -> String {
    "5ms".into()
}

fn measure() -> String {
    "20ms".into()
}

fn ring() -> u32 {
    1024
}

impl Scenario {
    /// Parses the file of this name. Those that it names are in `folder`.
    ///
    /// # Errors
    /// [`LabError::File`] names the line or the key, and what it can be.
    pub fn parse(file: &str, text: &str, folder: &Folder) -> Result<Self, LabError> {
        let fault = |what: String| LabError::File { file: file.into(), what };
        let read: File = toml::from_str(text).map_err(|error| LabError::of_toml(file, &error, text))?;
        let key = |key: &str| {
            let key = key.to_string();
            move |error: String| LabError::File { file: file.into(), what: format!("{key}: {error}") }
        };
        let time = |name: &str, text: &str| {
            let time = units::duration(text).map_err(|error| error.to_string());
            let time = time.map(|time| time.as_nanos()).and_then(|ns| match u64::try_from(ns) {
                Ok(ns) if ns <= TIME_MAX_NS => Ok(ns),
                _ => Err(format!("{text} cannot be: at most 2s")),
            });
            time.map_err(key(name))
        };
        let measure_ns = time("measure", &read.measure)?;
        if measure_ns == 0 {
            return Err(fault("measure: 0 cannot be: more than nothing".into()));
        }
        check_senders(&read.sender).map_err(fault)?;
        check_published(&read.published).map_err(fault)?;
        let senders: Result<Vec<Sender>, String> =
            read.sender.into_iter().map(|sender| sender.read(folder)).collect();
        let Queue { qdisc, owner, quota, byte_limit, small_queues } = read.queue;
        let qdisc = QdiscRegistry::default()
            .parse(qdisc.as_deref().unwrap_or("fifo"))
            .map_err(|error| key("queue.qdisc")(error.to_string()))?;
        let policy =
            quota.map_or(Policy::default(), |quota_packets| Policy { quota_packets, ..Policy::default() });
        if policy.quota_packets == 0 {
            return Err(fault("queue.quota: 0 cannot be: at least 1".into()));
        }
        let small_queues =
            small_queues.map(|text| small(&text)).transpose().map_err(key("queue.small_queues"))?;
        let machine = match &read.machine {
            None => Machine::assumed()?,
            Some(name) => Machine::parse(name, &folder.text(name).map_err(key("machine"))?)?,
        };
        Ok(Self {
            file: file.into(),
            settle_ns: time("settle", &read.settle)?,
            measure_ns,
            senders: senders.map_err(key("sender.arrivals"))?,
            qdisc,
            owner,
            policy,
            byte_limits: if byte_limit == Some(false) { Bounds::OFF } else { Bounds::LEARN },
            small_queues,
            link: read.link.map(|link| link.read()).transpose().map_err(key("link"))?,
            doorbell_ps: read.nic.map_or(Ok(0), |nic| doorbell_ps(&nic)).map_err(key("nic"))?,
            machine,
            published: read.published,
        })
    }

    /// Puts it on the machine of a file.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn on_machine(self, file: &str, text: &str) -> Result<Self, LabError> {
        Ok(Self { machine: Machine::parse(file, text)?, ..self })
    }

    /// Returns the number of senders.
    pub fn sender_count(&self) -> usize {
        self.senders.iter().map(|group| group.count).sum()
    }

    /// Returns each sender's group, in the order of the file.
    pub fn each_sender(&self) -> impl Iterator<Item = &Sender> {
        self.senders.iter().flat_map(|group| std::iter::repeat_n(group, group.count))
    }

    /// True if a poller runs the queue beside the senders: one whose senders pause, or wait for a line, has
    /// work that none of them
    /// looks at.
    pub(super) fn is_polled(&self) -> bool {
        let pauses = self.senders.iter().any(|group| group.arrivals != Arrivals::Saturate);
        (pauses || self.link.is_some()) && self.owner == Owner::Senders
    }

    /// Returns one histogram for each group, from those of its senders.
    pub(super) fn by_group(&self, senders: &[Histogram]) -> Vec<Histogram> {
        let mut senders = senders.iter();
        let group = |group: &Sender| {
            let all = Histogram::default();
            senders.by_ref().take(group.count).for_each(|sender| all.add(sender));
            all
        };
        self.senders.iter().map(group).collect()
    }

    /// Returns the name of each group.
    pub fn labels(&self) -> Vec<String> {
        let label = |(at, Sender { count, burst, bytes, arrivals, band }): (usize, &Sender)| {
            let band = band.map_or(String::new(), |band| format!(", band {band}"));
            format!("sender {}: {count} x {arrivals}, burst {burst}, {bytes} bytes{band}", at + 1)
        };
        self.senders.iter().enumerate().map(label).collect()
    }

    /// Sets a row beside the published figure of its name, if there is one.
    pub(super) fn beside_published(&self, row: Row) -> Row {
        let published = self.published.iter().find(|one| row.label == "all" && one.figure == row.metric);
        match published {
            Some(one) => row.beside(one.value).saying(&one.source),
            None => row,
        }
    }

    /// Builds its discipline.
    pub fn build_qdisc(&self) -> Box<dyn wharf_core::qdisc::Qdisc> {
        self.qdisc.build(QdiscSetup::default())
    }
}

impl LinkText {
    fn read(self) -> Result<Link, String> {
        let bits = units::bits_per_second(&self.rate).map_err(|error| error.to_string())?;
        if !(10_000_000..=1_000_000_000_000).contains(&bits) {
            return Err(format!("{} cannot be: 10mbit to 1tbit", self.rate));
        }
        if !(4..=65536).contains(&self.ring) {
            return Err(format!("a ring of {} cannot be: 4 to 65536", self.ring));
        }
        Ok(Link { bits_per_second: bits, ring_frames: self.ring.next_power_of_two() })
    }
}

/// Checks that published figures are of those that a run has.
fn check_published(published: &[Published]) -> Result<(), String> {
    let names = super::figure_names();
    match published.iter().find(|one| !names.contains(&one.figure.as_str()) || !one.value.is_finite()) {
        Some(one) => Err(format!("published.figure: {} cannot be: one of {}", one.figure, names.join(", "))),
        None => Ok(()),
    }
}

fn check_senders(groups: &[SenderText]) -> Result<(), String> {
    let all: usize = groups.iter().map(|group| group.count.min(SENDERS_MAX + 1)).sum();
    if !(1..=SENDERS_MAX).contains(&all) || groups.iter().any(|group| group.count == 0) {
        return Err(format!("sender.count: {all} senders cannot be: 1 to {SENDERS_MAX} in all"));
    }
    for SenderText { burst, bytes, band, .. } in groups {
        if !(1..=256).contains(burst) {
            return Err(format!("sender.burst: {burst} cannot be: 1 to 256"));
        }
        if let Some(band) = band.filter(|&band| band > BAND_MAX) {
            return Err(format!("sender.band: {band} cannot be: 0 to {BAND_MAX}"));
        }
        if !(60..=1514).contains(bytes) {
            return Err(format!("sender.bytes: {bytes} cannot be: 60 to 1514, without the checksum"));
        }
    }
    Ok(())
}

fn small(text: &str) -> Result<Option<u32>, String> {
    if text == "off" {
        return Ok(None);
    }
    let bytes = units::size_bytes(text).ok().and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| (4096..=1 << 30).contains(bytes));
    bytes.map(Some).ok_or_else(|| format!("\"{}\" cannot be: off, or 4k to 1g", text.escape_debug()))
}

/// Returns the time in which this NIC serves a doorbell; 0 if its description has none.
fn doorbell_ps(nic: &str) -> Result<u64, String> {
    let names = || Description::names().collect::<Vec<_>>().join(", ");
    let description =
        Description::built_in(nic).ok_or_else(|| format!("there is no {nic}: there are {}", names()))?;
    let nic = description
        .and_then(|description| description.nic(&Choice::default()))
        .map_err(|error| error.to_string())?;
    let doorbell = nic.tx.transfers.iter().find(|transfer| transfer.name == "doorbell");
    Ok(doorbell.and_then(|doorbell| doorbell.nic_ps.as_ref()).map_or(0, |figure| figure.value))
}
