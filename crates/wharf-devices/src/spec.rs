//! Kinds of devices, and specifications of one: `KIND:PLACE[,key=value]...`.
//!
//! A [`Kind`] is one value with everything that is to be known of a kind. A [`DeviceSpec`] is a specification
//! that has been read against its kind. `registry.rs` says which kinds there are.

mod doctor;
mod opened;
pub(crate) mod words;

pub use doctor::{Doctor, Effect};
pub use opened::{Opened, Opening};
pub use words::{Can, Direction, Place, QueueLayout};

use crate::host_loss::HostLoss;
use crate::reasons::Counted;
use crate::requirements::Requirement;
use std::path::Path;
use wharf_core::device::{DeviceError, LimitUnit};
use wharf_core::options::{Key, OptionError, Options, allowed, split};

/// The key of the unit of a byte queue limit.
pub(crate) const LIMIT: Key = Key::word(
    "limit",
    &["auto", "bytes", "packets"],
    "Unit of the byte queue limit: auto is bytes. In packets, a super-packet counts as one",
)
.when("packets, where another processor empties a ring of slots (a virtual machine, the other end of a veth), if short packets are many and delay others");

/// A kind of device.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Name, with which specifications begin.
    pub name: &'static str,
    /// Syntax of its specifications.
    pub usage: &'static str,
    /// Description in a few words.
    pub summary: &'static str,
    /// Requirements, in words.
    pub needs: &'static str,
    /// Requirements that can be checked without opening it.
    #[doc(hidden)]
    pub requirements: &'static [Requirement],
    /// The place that follows the colon: see [`Kind::file`].
    #[doc(hidden)]
    pub place: Place,
    /// Keys in every direction.
    pub keys: &'static [Key],
    /// Further keys of one that sends. A key that is in two of the tables is the same in both.
    pub tx_keys: &'static [Key],
    /// Further keys of one that receives.
    pub rx_keys: &'static [Key],
    /// Layout of its queues: see [`Kind::device_per_queue`].
    #[doc(hidden)]
    pub queues: QueueLayout,
    /// Its abilities: see [`Kind::both_ways`].
    #[doc(hidden)]
    pub can: Can,
    /// Checks the texts among its options, without opening it.
    pub check: fn(&DeviceSpec) -> Result<(), DeviceError>,
    /// The key, and its value, with which one receives no super-packets. Without it they may come, as chains
    /// of frames.
    pub whole_by: Option<(&'static str, &'static str)>,
    /// Opens one.
    pub open: fn(&DeviceSpec, Opening) -> Result<Vec<Opened>, DeviceError>,
    /// True if its other side may take nothing for as long as it likes, and is not at fault: a virtual
    /// machine that boots, or is paused.
    pub may_pause: bool,
    /// The time for which opening one may last, and the reason, in words.
    pub waits: &'static str,
    /// Returns the arrivals that this host loses to the device while it is open in a direction, if it does.
    #[doc(hidden)]
    pub host_loss: fn(&DeviceSpec, Direction) -> Option<HostLoss>,
    /// Its part in a diagnosis.
    #[doc(hidden)]
    pub doctor: Doctor,
    /// The words by which it counts frames, besides those that the table of `reasons` has for it.
    #[doc(hidden)]
    pub reasons: &'static [Counted],
}

/// Longest packet that a kernel or a virtual machine delivers, bytes: the longest IPv6 payload, its header,
/// and an Ethernet header with two tags.
pub const SUPER_PACKET_BYTES_MAX: u32 = 65535 + 40 + 14 + 2 * 4;

impl Kind {
    /// Makes a kind that needs nothing, has no place, no keys and one queue, and only sends.
    pub const fn new(
        name: &'static str, usage: &'static str, summary: &'static str,
        open: fn(&DeviceSpec, Opening) -> Result<Vec<Opened>, DeviceError>,
    ) -> Self {
        Self {
            name,
            usage,
            summary,
            needs: "nothing",
            requirements: &[],
            place: Place::Nowhere,
            keys: &[],
            tx_keys: &[],
            rx_keys: &[],
            queues: QueueLayout::One,
            can: Can::SEND,
            check: |_| Ok(()),
            whole_by: None,
            open,
            may_pause: false,
            waits: "for it to open",
            host_loss: |_, _| None,
            doctor: Doctor::NONE,
            reasons: &[],
        }
    }

    /// Has it receive only.
    #[must_use]
    pub const fn receive_only(mut self) -> Self {
        self.can = Can { send: false, both: false, receive: true, ..self.can };
        self
    }

    /// Has it send, receive, and do both at once.
    #[must_use]
    pub const fn both_ways(mut self) -> Self {
        self.can = Can { send: true, receive: true, both: true, ..self.can };
        self
    }

    /// Says that one gives its other end to this process, by [`Opened::with_far_end`]. What it sends leads out
    /// of it nowhere.
    #[must_use]
    pub const fn far_end(mut self) -> Self {
        self.can = Can { far_end: true, stays_inside: true, ..self.can };
        self
    }

    /// Has the path of a file follow the colon, which usage lines call `usage`.
    #[must_use]
    pub const fn file(mut self, usage: &'static str) -> Self {
        self.place = Place::File(usage);
        self
    }

    /// Has the name of a network interface follow the colon.
    #[must_use]
    pub const fn interface(mut self, usage: &'static str) -> Self {
        self.place = Place::Interface(usage);
        self
    }

    /// Has the path of a Unix socket follow the colon.
    #[must_use]
    pub const fn socket(mut self, usage: &'static str) -> Self {
        self.place = Place::Socket(usage);
        self
    }

    /// Has a network address follow the colon.
    #[must_use]
    pub const fn address(mut self, usage: &'static str) -> Self {
        self.place = Place::Address(usage);
        self
    }

    /// Has its queues be devices of their own: it opens as many as [`Opening::queues`] asks for.
    #[must_use]
    pub const fn device_per_queue(mut self) -> Self {
        self.queues = QueueLayout::Devices;
        self
    }

    /// Has its queues be pairs inside one device: see [`DeviceSpec::pairs`].
    #[must_use]
    pub const fn queue_pairs(mut self) -> Self {
        self.queues = QueueLayout::Pairs;
        self
    }

    /// Checks that each name of a key has one meaning: a specification is read before its direction is known.
    pub(crate) fn check(&self) -> Result<(), OptionError> {
        let keys = self.tables(Direction::Both).concat();
        let twice = |key: &&Key| keys.iter().any(|other| other.name == key.name && other != *key);
        keys.iter().find(twice).map_or(Ok(()), |key| {
            let what = format!("its tables of keys have two different ones called {}", key.name);
            Err(OptionError { subject: self.name.into(), what })
        })
    }

    /// Returns the tables of the keys that it takes in `direction`.
    fn tables(&self, direction: Direction) -> [&'static [Key]; 3] {
        let tx = if direction == Direction::Receive { &[] } else { self.tx_keys };
        let rx = if direction == Direction::Send { &[] } else { self.rx_keys };
        [self.keys, tx, rx]
    }
}

/// A specification, read against its kind: nothing is opened yet.
#[derive(Debug, Clone)]
pub struct DeviceSpec {
    kind: &'static Kind,
    text: String,
    place: String,
    options: Options,
}

impl std::fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl DeviceSpec {
    /// Reads `rest`, the part of `text` behind the kind's name. It takes the keys of any direction; an error
    /// lists those of `direction`.
    pub(crate) fn parse(
        kind: &'static Kind, text: &str, rest: Option<&str>, direction: Direction,
    ) -> Result<Self, OptionError> {
        let parts = rest.map_or(Vec::new(), split);
        let (place, parts) = match (kind.place.words(), &parts[..]) {
            (None, parts) => (String::new(), parts),
            (Some(_), [place, parts @ ..]) if !place.is_empty() => (place.clone(), parts),
            (Some(_), _) => return Err(which_place(kind)),
        };
        let name = name(kind, &place);
        let parts = match parts {
            [only] if only.is_empty() => &[],
            parts => parts,
        };
        let read =
            |direction| Options::parse(&name, parts.iter().map(String::as_str), &kind.tables(direction));
        let options = read(Direction::Both).or_else(|_| read(direction))?;
        Ok(Self { kind, text: text.into(), place, options })
    }

    /// Returns its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns the part behind the colon; empty if the kind has no place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the file that it names, if it names one.
    pub fn file(&self) -> Option<&Path> {
        matches!(self.kind.place, Place::File(_)).then(|| Path::new(&self.place))
    }

    /// Returns kind and place, on one line: the device's name in messages.
    pub fn name(&self) -> String {
        name(self.kind, &self.place)
    }

    /// True if both name one end of a link, by which what one sends would get back to the other: an interface,
    /// a socket or an adapter.
    pub fn is_same_end(&self, other: &Self) -> bool {
        let has_end = matches!(self.kind.place, Place::Interface(_) | Place::Socket(_) | Place::Adapter(_));
        has_end && self.kind.name == other.kind.name && self.place == other.place
    }

    /// True if both name interfaces that are the two ends of one veth pair, in this network namespace: what one sends arrives at the other.
    pub fn is_peer(&self, other: &Self) -> bool {
        let is_interface = |spec: &Self| matches!(spec.kind.place, Place::Interface(_));
        is_interface(self) && is_interface(other) && crate::link::are_peers(&self.place, &other.place)
    }

    /// Returns it with the port of `name`, the device's, where it left the choice to the kernel.
    pub(crate) fn with_port_of(&self, name: &str) -> Self {
        let (host, port) = (self.place.strip_suffix(":0"), name.rsplit_once(':'));
        match (self.kind.place, host, port) {
            (Place::Address(_), Some(host), Some((_, port))) => {
                Self { place: format!("{host}:{port}"), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// Returns its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the number of devices that [`DeviceSpec::open`] gives for `queues`.
    pub fn devices(&self, queues: u32) -> usize {
        match self.kind.queues {
            QueueLayout::Devices => queues.max(1) as usize,
            QueueLayout::One | QueueLayout::Pairs => 1,
        }
    }

    /// Checks that its kind can do `direction`, and that its options go with it.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for the direction, [`DeviceError::Refused`] with the allowed values for a
    /// key.
    pub fn check(&self, direction: Direction) -> Result<(), DeviceError> {
        let can = self.kind.can;
        let keys: Vec<&Key> = self.kind.tables(direction).into_iter().flatten().collect();
        match self.options.given().find(|given| !keys.contains(given)) {
            Some(wrong) => {
                let of = if self.kind.rx_keys.contains(wrong) { "receive" } else { "send" };
                Err(self.fault(format!("{} is a key to {of} alone; {}", wrong.name, allowed(&keys))))
            }
            None if direction == Direction::Receive && !can.receive => Err(self.unsupported("it only sends")),
            None if direction == Direction::Send && !can.send => Err(self.unsupported("it only receives")),
            None => (self.kind.check)(self),
        }
    }

    /// Opens it, with as many queues as are asked for where it has several: a device for each, or one with
    /// pairs of them.
    ///
    /// # Errors
    /// Those of [`DeviceSpec::check`], and those of the device as it opens.
    pub fn open(&self, opening: impl Into<Opening>) -> Result<Vec<Opened>, DeviceError> {
        let opening = opening.into();
        self.check(opening.direction)?;
        (self.kind.open)(self, opening)
    }

    /// Returns the number given for `key` where `T` holds it: bounds are in the key's table.
    pub fn number<T: TryFrom<u64>>(&self, key: &str) -> Option<T> {
        self.options.number(key).and_then(|number| T::try_from(number).ok())
    }

    /// Returns what `key` stands for by the word given, of these; the first by default.
    pub(crate) fn choice<T: Copy, const N: usize>(&self, key: &str, words: [(&str, T); N]) -> T {
        let given = self.options.word(key);
        words.into_iter().find(|(word, _)| Some(*word) == given).unwrap_or(words[0]).1
    }

    /// Returns the unit that its key [`LIMIT`] asks for; `None` for that of the device.
    pub(crate) fn limit_unit(&self) -> Option<LimitUnit> {
        [LimitUnit::Bytes, LimitUnit::Packets]
            .into_iter()
            .find(|unit| self.options.word("limit") == Some(unit.name()))
    }

    /// Returns the number of queue pairs: that of its key `queues`, or as many as `queues` asks for.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] for more than `most`.
    pub fn pairs(&self, queues: u32, most: u16) -> Result<u16, DeviceError> {
        let wanted = self.options.number("queues").unwrap_or(queues.into());
        match u16::try_from(wanted) {
            Ok(pairs) if (1..=most).contains(&pairs) => Ok(pairs),
            _ => Err(self.fault(format!("queues: {wanted} cannot be: 1 to {most}"))),
        }
    }

    /// Makes the error that asks for a place.
    pub fn which_place(&self) -> DeviceError {
        self.fault(which_place(self.kind).what)
    }

    /// Makes the error that says `what` the device cannot do, whatever its keys.
    pub fn unsupported(&self, what: impl Into<String>) -> DeviceError {
        DeviceError::Unsupported { device: self.name(), what: what.into() }
    }

    /// Makes the error that says `what` of its keys cannot be.
    pub fn fault(&self, what: impl Into<String>) -> DeviceError {
        self.options.fault(what).into()
    }
}

fn name(kind: &Kind, place: &str) -> String {
    if place.is_empty() { kind.name.into() } else { format!("{}:{}", kind.name, place.escape_debug()) }
}

fn which_place(kind: &Kind) -> OptionError {
    let words = kind.place.words();
    let what = words.map_or(String::new(), |(place, usage)| format!("which {place}? {}:{usage}", kind.name));
    OptionError { subject: kind.name.into(), what }
}
