//! Descriptions of NICs: files, their features, and the user's settings.

use super::section::{FileError, Section};
use super::transfer::{NAMES, Transfer, named};
use super::{Figure, Mark, Nic, Way};
use crate::pcie::{BOUNDARIES, Completions, Generation, LANES, Link, LinkError, SIZES};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// The descriptions that are built in.
const BUILT_IN: [(&str, &str); 13] = [
    ("cx5", include_str!("../../nics/cx5.toml")),
    ("cx6dx", include_str!("../../nics/cx6dx.toml")),
    ("cx7", include_str!("../../nics/cx7.toml")),
    ("e1000", include_str!("../../nics/e1000.toml")),
    ("e810", include_str!("../../nics/e810.toml")),
    ("ena", include_str!("../../nics/ena.toml")),
    ("gvnic", include_str!("../../nics/gvnic.toml")),
    ("igb", include_str!("../../nics/igb.toml")),
    ("ipoib", include_str!("../../nics/ipoib.toml")),
    ("ixgbe", include_str!("../../nics/ixgbe.toml")),
    ("simple", include_str!("../../nics/simple.toml")),
    ("thor", include_str!("../../nics/thor.toml")),
    ("virtio", include_str!("../../nics/virtio.toml")),
];
/// The defaults of every description.
const HOST: &str = include_str!("../../nics/host.toml");

/// The largest file that is read.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The most features of one description. A question is answered once for each of them, so this bounds the
/// time.
const FEATURES_MAX: usize = 64;
const ANY: RangeInclusive<u64> = 0..=1_000_000_000;

/// A switch of a NIC, its driver or its host.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Its name, as in ethtool if ethtool knows it.
    pub name: String,
    /// Its effect.
    pub what: String,
    /// True if it is on by default.
    pub default: bool,
    /// The command that switches it, with `IF` for the interface and `ON` for on or off; none if no command does.
    pub command: Option<String>,
    /// Features that go off when this one goes on.
    pub excludes: Vec<String>,
    /// The mark of its numbers.
    pub mark: Mark,
    /// The source of its numbers.
    pub source: String,
    set: Table,
}

/// A file's answers to the question itself; the command line takes precedence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanDefaults {
    /// Bytes of a frame with its check sequence.
    pub size: Option<u32>,
    /// Processors.
    pub cores: Option<u32>,
}

/// The user's switches and settings beside a description.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Features asked for, by name.
    pub features: BTreeMap<String, bool>,
    /// Features as found on an interface, in place of the description's defaults. Those asked for take
    /// precedence.
    pub found: BTreeMap<String, bool>,
    /// Keys such as `rx.completion.every`, with their value, mark and source.
    pub sets: Vec<(String, String, Mark, String)>,
}

/// A NIC as described by a file.
#[derive(Debug, Clone)]
pub struct Description {
    file: String,
    table: Table,
    features: Vec<Feature>,
    defaults: PlanDefaults,
}

impl Description {
    /// Returns the names of the built-in descriptions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in description of this name.
    pub fn built_in(name: &str) -> Option<Result<Self, FileError>> {
        let (name, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Some(Self::parse(&format!("{name}.toml"), text))
    }

    /// Returns the description whose drivers include `driver`.
    pub fn of_driver(driver: &str) -> Option<Self> {
        Self::built_in_that(|nic| nic.drivers.iter().any(|name| name == driver))
    }

    /// Returns the description whose PCI numbers include `id`, `8086:10c9` for example: of an adapter that another driver
    /// has than the kernel's for it.
    pub fn of_pci_id(id: &str) -> Option<Self> {
        Self::built_in_that(|nic| nic.pci_ids.iter().any(|own| own == id))
    }

    fn built_in_that(is_it: impl Fn(&Nic) -> bool) -> Option<Self> {
        let mut all = Self::names().filter_map(|name| Self::built_in(name)?.ok());
        all.find(|description| description.nic(&Choice::default()).is_ok_and(|nic| is_it(&nic)))
    }

    /// Parses a description; `file` names it in errors.
    ///
    /// # Errors
    /// [`FileError`] names the first invalid key, and the allowed values.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let fault = |key: &str, what: String| FileError { file: file.into(), key: key.into(), what };
        if text.len() > FILE_BYTES_MAX {
            return Err(fault("file", format!("larger than {FILE_BYTES_MAX} bytes: is this a description?")));
        }
        let syntax = |error: &toml::de::Error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            let message = error.message().lines().next().unwrap_or("no TOML").trim().to_string();
            fault(&format!("line {line}"), message)
        };
        let mut own: Table = text.parse().map_err(|error| syntax(&error))?;
        let mut table: Table = HOST.parse().map_err(|error| syntax(&error))?;
        if let Some(base) = own.remove("base") {
            merge(
                &mut table,
                &Self::base(&base).ok_or_else(|| {
                    let names: Vec<&str> = Self::names().collect();
                    fault("base", format!("cannot be: one of {}", names.join(", ")))
                })?,
            );
        }
        merge(&mut table, &own);
        let features = features(&Section::root(file, &table))?;
        let mut description = Self { file: file.into(), table, features, defaults: PlanDefaults::default() };
        description.defaults = description.plan_defaults()?;
        description.check()?;
        Ok(description)
    }

    /// Returns the table of the built-in description of this name.
    fn base(name: &Value) -> Option<Table> {
        let name = name.as_str()?;
        BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?.1.parse().ok()
    }

    /// Checks that each feature, on and off, leaves a valid NIC.
    fn check(&self) -> Result<(), FileError> {
        let one = |name: &str, on| Choice { features: [(name.to_string(), on)].into(), ..Choice::default() };
        self.nic(&Choice::default())?;
        for feature in &self.features {
            self.nic(&one(&feature.name, true))?;
            self.nic(&one(&feature.name, false))?;
        }
        Ok(())
    }

    fn plan_defaults(&self) -> Result<PlanDefaults, FileError> {
        let root = Section::root(&self.file, &self.table);
        let Some(section) = root.section("plan")? else { return Ok(PlanDefaults::default()) };
        let narrow = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
        let size = narrow(section.number("size", &crate::plan::SIZES)?);
        let cores = narrow(section.number("cores", &crate::plan::CORES)?);
        section.finish()?;
        Ok(PlanDefaults { size, cores })
    }

    /// Returns the name of its file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns its features, by name.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Returns its answers to the question itself.
    pub fn defaults(&self) -> &PlanDefaults {
        &self.defaults
    }

    /// Returns the features that are on under a choice: those asked for first, then the defaults that they
    /// permit.
    pub fn switched_on(&self, choice: &Choice) -> Vec<&str> {
        let asked = |feature: &Feature| choice.features.get(&feature.name).copied();
        let mut on: Vec<&Feature> =
            self.features.iter().filter(|feature| asked(feature) == Some(true)).collect();
        let excluded = |on: &[&Feature], feature: &Feature| {
            on.iter()
                .any(|other| other.excludes.contains(&feature.name) || feature.excludes.contains(&other.name))
        };
        let by_itself = |feature: &Feature| *choice.found.get(&feature.name).unwrap_or(&feature.default);
        for feature in self.features.iter().filter(|feature| asked(feature).is_none() && by_itself(feature)) {
            if !excluded(&on, feature) {
                on.push(feature);
            }
        }
        on.iter().map(|feature| feature.name.as_str()).collect()
    }

    /// Returns the NIC under a choice.
    ///
    /// # Errors
    /// [`FileError`] for an unknown feature, one that another excludes, and an invalid key.
    pub fn nic(&self, choice: &Choice) -> Result<Nic, FileError> {
        self.check_choice(choice)?;
        let on = self.switched_on(choice);
        let mut table = self.table.clone();
        // Defaults are applied first: the features asked for build on them.
        let is_on = |feature: &&Feature| on.contains(&feature.name.as_str());
        for default in [true, false] {
            for feature in self.features.iter().filter(is_on).filter(|feature| feature.default == default) {
                merge(&mut table, &feature.set);
            }
        }
        for (key, value, mark, source) in &choice.sets {
            set(&mut table, key, value, *mark, source).ok_or_else(|| FileError {
                file: self.file.clone(),
                key: key.clone(),
                what: "no such number to set".into(),
            })?;
        }
        nic(&Section::root(&self.file, &table))
    }

    fn check_choice(&self, choice: &Choice) -> Result<(), FileError> {
        let fault = |key: &str, what| FileError { file: self.file.clone(), key: key.into(), what };
        let on = |name: &str| choice.features.get(name) == Some(&true);
        for name in choice.features.keys() {
            let Some(feature) = self.features.iter().find(|feature| feature.name == *name) else {
                let names: Vec<&str> = self.features.iter().map(|feature| feature.name.as_str()).collect();
                return Err(fault(
                    &format!("features.{name}"),
                    format!("no such feature; there are {}", names.join(", ")),
                ));
            };
            if let Some(other) = feature.excludes.iter().find(|other| on(name) && on(other)) {
                return Err(fault(&format!("features.{name}"), format!("not together with {other}")));
            }
        }
        Ok(())
    }
}

/// Lays `over` over `table`: tables are merged, all other values replaced.
fn merge(table: &mut Table, over: &Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
}

/// Sets the number at a path such as `rx.completion.every`. Returns `None` if there is none.
fn set(table: &mut Table, path: &str, value: &str, mark: Mark, source: &str) -> Option<()> {
    let value = match value {
        "true" | "on" => Value::Boolean(true),
        "false" | "off" => Value::Boolean(false),
        text => text.parse().map_or_else(|_| Value::String(text.into()), Value::Integer),
    };
    // These were read before, or do not concern a NIC.
    if matches!(path.split('.').next(), Some("features" | "plan")) {
        return None;
    }
    let (folder, key) = path.rsplit_once('.').map_or((None, path), |(folder, key)| (Some(folder), key));
    let mut table = table;
    for part in folder.into_iter().flat_map(|folder| folder.split('.')) {
        table = table.get_mut(part)?.as_table_mut()?;
    }
    let value = match table.get(key) {
        Some(Value::Table(figure)) if figure.contains_key("value") => {
            let origin = [("value", value), ("mark", mark.name().into()), ("source", source.into())];
            Value::Table(
                origin.into_iter().map(|(key, value): (_, Value)| (key.to_string(), value)).collect(),
            )
        }
        Some(Value::Table(_)) => return None,
        // A number of a transfer or a link, which the file may leave out. Reading reports an unknown one.
        _ => value,
    };
    table.insert(key.into(), value);
    Some(())
}

fn features(root: &Section<'_>) -> Result<Vec<Feature>, FileError> {
    let Some(section) = root.section("features")? else { return Ok(Vec::new()) };
    let sections = section.sections()?;
    if sections.len() > FEATURES_MAX {
        let what = format!("{} of them cannot be: {FEATURES_MAX} at most", sections.len());
        return Err(root.fault("features", what));
    }
    let mut features = Vec::new();
    for (name, section) in sections {
        let (mark, source) = section.origin()?;
        features.push(Feature {
            name: name.into(),
            what: section.line("what")?.unwrap_or_default().into(),
            default: section.flag("default")?.unwrap_or(false),
            command: section.line("command")?.map(str::to_string),
            excludes: section.texts("excludes")?.unwrap_or_default(),
            set: section.table("set")?.cloned().unwrap_or_default(),
            mark,
            source,
        });
        section.finish()?;
    }
    let unknown =
        |feature: &Feature| feature.excludes.iter().any(|name| features.iter().all(|one| one.name != *name));
    match features.iter().find(|feature| unknown(feature)) {
        None => Ok(features),
        Some(feature) => {
            Err(section.fault(&format!("{}.excludes", feature.name), "names no feature of this file"))
        }
    }
}

fn nic(root: &Section<'_>) -> Result<Nic, FileError> {
    let need = |key, allowed: &RangeInclusive<u64>| root.need(key, root.figure(key, allowed)?);
    let way = |key| root.need(key, root.section(key)?).and_then(|section| way(&section));
    let nic = Nic {
        name: root.need("name", root.line("name")?)?.into(),
        what: root.line("what")?.unwrap_or_default().into(),
        drivers: root.texts("drivers")?.unwrap_or_default(),
        pci_ids: root.texts("pci_ids")?.unwrap_or_default(),
        link: link(&root.need("link", root.section("link")?)?)?,
        wire_bits_per_second: need("wire_bits_per_second", &(1_000_000..=100_000_000_000_000))?,
        wire_overhead_bytes: need("wire_overhead_bytes", &(0..=1000))?,
        queues: need("queues", &(1..=65536))?,
        tags: need("tags", &(1..=65536))?,
        latency_ns: need("latency_ns", &(1..=1_000_000))?,
        fetches_in_flight: need("fetches_in_flight", &(1..=65536))?,
        doorbell_ns: need("doorbell_ns", &ANY)?,
        clock_mhz: need("clock_mhz", &(1..=100_000))?,
        tx: way("tx")?,
        rx: way("rx")?,
    };
    root.skip("features");
    root.skip("plan");
    root.finish()?;
    Ok(nic)
}

fn link(section: &Section<'_>) -> Result<Link, FileError> {
    let wrong =
        |error: LinkError| section.fault(error.key, format!("{} cannot be: {}", error.value, error.allowed));
    let generations = Generation::ALL.map(Generation::number);
    let generation = section.need("generation", section.one_of("generation", &generations)?)?;
    let generation = section.need("generation", Generation::from_number(generation))?;
    let lanes = section.need("lanes", section.one_of("lanes", &LANES)?)?;
    let mut link = Link::new(generation, lanes).map_err(wrong)?;
    type Setter = fn(Link, u32) -> Result<Link, LinkError>;
    let keys: [(&'static str, &[u32], Setter); 3] =
        [("mps", &SIZES, Link::mps), ("mrrs", &SIZES, Link::mrrs), ("rcb", &BOUNDARIES, Link::rcb)];
    for (key, allowed, setter) in keys {
        let bytes = section.one_of(key, allowed)?;
        link = bytes.map_or(Ok(link), |bytes| setter(link, bytes)).map_err(wrong)?;
    }
    let cuts = [("payload", Completions::Payload), ("boundary", Completions::Boundary)];
    let cut = section.choice("completions", &cuts)?;
    section.finish()?;
    Ok(cut.map_or(link, |cut| link.completions(cut)))
}

fn way(section: &Section<'_>) -> Result<Way, FileError> {
    let need = |key, allowed: &RangeInclusive<u64>| -> Result<Figure, FileError> {
        section.need(key, section.figure(key, allowed)?)
    };
    let (cpu_cycles, buffer_bytes) = (need("cpu_cycles", &ANY)?, need("buffer_bytes", &(64..=65536))?);
    let (page_cycles, page_shared_ns) = (need("page_cycles", &ANY)?, need("page_shared_ns", &ANY)?);
    let mut transfers = Vec::new();
    for name in NAMES {
        if let Some(transfer) = section.section(name)? {
            transfers.extend(Transfer::read(name, &transfer)?);
        }
    }
    section.finish()?;
    for transfer in &transfers {
        for (key, other) in [("follows", &transfer.follows), ("within", &transfer.within)] {
            let Some(other) = other else { continue };
            let leads = named(&transfers, other).is_some_and(|other| other.follows.is_none());
            // `within` may name a transfer that follows another; `follows` may not.
            if !(leads || key == "within" && named(&transfers, other).is_some()) {
                let what =
                    format!("\"{}\" cannot be: a transfer here that follows none", other.escape_debug());
                return Err(section.fault(&format!("{}.{key}", transfer.name), what));
            }
        }
    }
    Ok(Way { transfers, cpu_cycles, buffer_bytes, page_cycles, page_shared_ns })
}
