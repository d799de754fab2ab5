//! The disciplines that there are, and specifications of one: `NAME[:LIMIT]` or `NAME[:key=value,...]`.
//!
//! [`QdiscRegistry::default`] has those of this crate; [`QdiscRegistry::with`] adds one of a user's own,
//! which then is parsed, built and listed as they are.

use super::{FifoLimit, Qdisc, WhenFull};
use crate::options::{Key, OptionError, Options, did_you_mean, split};
use crate::units;

/// Packets that a discipline takes unless told otherwise: the kernel's `txqueuelen`.
pub const QUEUE_PACKETS: usize = 1000;
/// Most packets that a limit can be.
pub const QUEUE_PACKETS_MAX: usize = 1 << 20;

/// The key of a limit in packets, where it is an option.
const LIMIT: &str = "limit";

/// A kind of discipline: one value with everything that is to be known of it.
#[derive(Debug, Clone, Copy)]
pub struct QdiscKind {
    /// Name, with which specifications begin; [`Qdisc::name`] is the same.
    pub name: &'static str,
    /// Syntax of its specifications.
    pub usage: &'static str,
    /// Description in a few words, for help.
    pub summary: &'static str,
    /// True if a limit, in packets or as a size in bytes, may follow the colon: `fifo:1000`, `fifo:64k`.
    pub takes_limit: bool,
    /// The order that it keeps.
    pub order: Order,
    /// Its options.
    pub keys: &'static [Key],
    /// Returns the number of packets that a discipline of these options holds, for the size of a pool.
    pub packets: fn(&QdiscSpec) -> usize,
    /// Builds an empty one.
    pub build: fn(&QdiscSpec, QdiscSetup) -> Box<dyn Qdisc>,
}

/// The packets among which a discipline keeps the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// All.
    #[default]
    All,
    /// Those of one band.
    Band,
    /// Those of one flow.
    Flow,
}

/// Settings that a discipline is built with besides its own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QdiscSetup {
    /// Effect of its limit when it is reached.
    pub when_full: WhenFull,
    /// Perturbs hashes.
    pub seed: u64,
}

/// A specification, read against its kind.
#[derive(Debug, Clone)]
pub struct QdiscSpec {
    kind: &'static QdiscKind,
    limit: Option<FifoLimit>,
    options: Options,
}

impl QdiscSpec {
    fn parse(kind: &'static QdiscKind, rest: Option<&str>) -> Result<Self, OptionError> {
        let limit = match rest {
            Some(rest) if kind.takes_limit && !rest.contains('=') => Some(limit(kind, rest)?),
            _ => None,
        };
        let parts = rest.filter(|_| limit.is_none()).map_or(Vec::new(), split);
        let options = Options::parse(kind.name, parts.iter().map(String::as_str), &[kind.keys])?;
        Ok(Self { kind, limit, options })
    }

    /// Returns its kind.
    pub fn kind(&self) -> &'static QdiscKind {
        self.kind
    }

    /// Returns the limit that follows the colon.
    pub fn limit(&self) -> Option<FifoLimit> {
        self.limit
    }

    /// Returns its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the number of packets that the discipline holds.
    pub fn packets(&self) -> usize {
        (self.kind.packets)(self)
    }

    /// Sets a limit of `packets` (per band, if there are bands). Does nothing if a limit is set, or if the
    /// kind has none in packets.
    #[must_use]
    pub fn or_limit(mut self, packets: usize) -> Self {
        let packets = packets.clamp(1, QUEUE_PACKETS_MAX);
        if self.kind.takes_limit {
            self.limit = self.limit.or(Some(FifoLimit::Packets(packets)));
        } else if self.kind.keys.iter().any(|key| key.name == LIMIT) && self.options.text(LIMIT).is_none() {
            let read = self.options.add(&format!("{LIMIT}={packets}"));
            debug_assert!(read.is_ok(), "a kind's limit is in packets: {read:?}");
        }
        self
    }

    /// Builds an empty discipline.
    pub fn build(&self, setup: QdiscSetup) -> Box<dyn Qdisc> {
        (self.kind.build)(self, setup)
    }
}

fn limit(kind: &QdiscKind, text: &str) -> Result<FifoLimit, OptionError> {
    let read = match text.parse() {
        Ok(packets) => (1..=QUEUE_PACKETS_MAX).contains(&packets).then_some(FifoLimit::Packets(packets)),
        Err(_) => units::size_bytes(text).ok().filter(|&bytes| bytes > 0).map(FifoLimit::Bytes),
    };
    read.ok_or_else(|| {
        let what =
            format!("want a limit of 1 to {QUEUE_PACKETS_MAX} packets, or a size in bytes such as 64k");
        OptionError { subject: kind.name.into(), what }
    })
}

/// Kinds of disciplines, by name.
#[derive(Debug, Clone)]
pub struct QdiscRegistry {
    pub(super) kinds: Vec<&'static QdiscKind>,
}

impl QdiscRegistry {
    /// Adds `kind`, in place of one of the same name if there is one.
    #[must_use]
    pub fn with(mut self, kind: &'static QdiscKind) -> Self {
        match self.kinds.iter_mut().find(|known| known.name == kind.name) {
            Some(known) => *known = kind,
            None => self.kinds.push(kind),
        }
        self
    }

    /// Returns its kinds, in the order in which they are listed.
    pub fn kinds(&self) -> &[&'static QdiscKind] {
        &self.kinds
    }

    /// Returns the syntax of each kind with its summary, for help.
    pub fn usage(&self) -> String {
        let all: Vec<String> =
            self.kinds.iter().map(|kind| format!("{} ({})", kind.usage, kind.summary)).collect();
        match &all[..] {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            all => all.join(""),
        }
    }

    /// Returns a line for each option of each kind, with its default, its values and its meaning, for help.
    pub fn keys(&self) -> Vec<String> {
        let row = |kind: &QdiscKind, key: &Key| {
            format!("{}: {}={} ({}): {}", kind.name, key.name, key.default, key.allowed(), key.meaning)
        };
        self.kinds.iter().flat_map(|kind| kind.keys.iter().map(move |key| row(kind, key))).collect()
    }

    /// Reads a specification.
    ///
    /// # Errors
    /// [`OptionError`] for a specification that cannot be, saying what can.
    pub fn parse(&self, text: &str) -> Result<QdiscSpec, OptionError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        match self.kinds.iter().find(|kind| kind.name == name) {
            Some(kind) => QdiscSpec::parse(kind, rest),
            None => {
                let subject = format!("\"{}\"", text.escape_debug());
                let meant = did_you_mean(name, self.kinds.iter().map(|kind| kind.name));
                Err(OptionError { subject, what: format!("want {}{meant}", self.usage()) })
            }
        }
    }
}
