//! The kinds of devices that there are.
//!
//! [`Registry::default`] has those of this crate; [`Registry::with`] adds one of another crate, which then is
//! parsed, opened and listed as they are.

use crate::BUILT_IN;
use crate::interfaces::HostInterface;
use crate::reasons::{self, Reason};
use crate::spec::{DeviceSpec, Direction, Kind, Opened, Opening};
use wharf_core::device::DeviceError;
use wharf_core::options::{OptionError, did_you_mean};

/// Kinds of devices, by name.
#[derive(Debug, Clone)]
pub struct Registry {
    kinds: Vec<&'static Kind>,
}

impl Default for Registry {
    /// The kinds of this crate.
    fn default() -> Self {
        Self { kinds: BUILT_IN.to_vec() }
    }
}

impl Registry {
    /// Makes one of `kinds` alone, which are listed in this order.
    ///
    /// # Errors
    /// Those of [`Registry::with`].
    pub fn of(kinds: impl IntoIterator<Item = &'static Kind>) -> Result<Self, OptionError> {
        kinds.into_iter().try_fold(Self { kinds: Vec::new() }, Self::with)
    }

    /// Adds `kind`, in place of one of the same name if there is one.
    ///
    /// # Errors
    /// [`OptionError`] for a kind with two different keys of one name.
    pub fn with(mut self, kind: &'static Kind) -> Result<Self, OptionError> {
        kind.check()?;
        match self.kinds.iter_mut().find(|known| known.name == kind.name) {
            Some(known) => *known = kind,
            None => self.kinds.push(kind),
        }
        Ok(self)
    }

    /// Returns its kinds, in the order in which they are listed.
    pub fn kinds(&self) -> &[&'static Kind] {
        &self.kinds
    }

    /// Returns the table of reasons by which frames are counted, with the words of its kinds.
    #[doc(hidden)]
    pub fn reasons(&self) -> Vec<Reason> {
        reasons::with(self.kinds.iter().map(|kind| (kind.name, kind.reasons)))
    }

    /// Reads a specification, `KIND:PLACE[,key=value]...`. A comma that belongs to a place is written `\,`;
    /// kinds without a place have their keys behind the colon at once, `wire:rate=10gbit,delay=1ms`.
    ///
    /// # Errors
    /// [`OptionError`] for a specification that cannot be, saying what can.
    pub fn parse(&self, text: &str) -> Result<DeviceSpec, OptionError> {
        self.parse_for(text, Direction::Both)
    }

    /// Works like [`Registry::parse`] for a device of which `direction` is known: errors list its keys only.
    ///
    /// # Errors
    /// Those of [`Registry::parse`].
    pub fn parse_for(&self, text: &str, direction: Direction) -> Result<DeviceSpec, OptionError> {
        let (name, rest) = match text.find([':', ',']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        match self.kinds.iter().find(|kind| kind.name == name) {
            Some(kind) => DeviceSpec::parse(kind, text, rest, direction),
            None => Err(self.unknown(text)),
        }
    }

    /// Opens one queue of the device that `text` describes, without memory.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] for a specification that cannot be, saying what can, and what the device
    /// itself meets as it opens.
    pub fn open(&self, text: &str, direction: Direction) -> Result<Opened, DeviceError> {
        let one = self.parse_for(text, direction)?.open(direction)?.pop();
        one.ok_or_else(|| DeviceError::Unsupported { device: text.into(), what: "no queue".into() })
    }

    /// Installs the process's handler of `SIGBUS`, once and for good; further calls do nothing. Without it, a
    /// peer of `vhost-user` or `virtio-user` that truncates the memory that it shares ends the process. Any
    /// other `SIGBUS` goes to the action that was there before.
    ///
    /// # Errors
    /// Those of `sigaction(2)`.
    #[cfg(feature = "vhost")]
    pub fn install_sigbus_handler() -> std::io::Result<()> {
        crate::vhost_user::install_sigbus_handler()
    }

    fn unknown(&self, text: &str) -> OptionError {
        let subject = format!("\"{}\"", text.escape_debug());
        let name = text.split([':', ',']).next().unwrap_or_default();
        if let Some(what) = self.of_interface(name) {
            return OptionError { subject, what };
        }
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name).collect();
        let meant = did_you_mean(name, names.iter().copied());
        let mut what = format!("unknown kind of device; there are {}{meant}", names.join(", "));
        // The kernel takes such names (`dev_valid_name`); a colon, a comma or a dot is of a specification or a file.
        let is_like_one = (1..16).contains(&text.len())
            && !text.contains(|letter: char| letter.is_whitespace() || ":,/.".contains(letter));
        if meant.is_empty() && is_like_one {
            what += "; if it is an interface, none here has that name: `ip link` lists them";
        }
        if cfg!(not(feature = "vhost")) && text.contains("-user") {
            what += "; vhost-user and virtio-user need the crate's feature `vhost`";
        }
        OptionError { subject, what }
    }

    /// Returns the specifications by which the interface `name` is used; `None` if there is none.
    #[doc(hidden)]
    pub fn of_interface(&self, name: &str) -> Option<String> {
        let interface = HostInterface::find(name)?;
        let specs = self.kinds.iter().filter(|kind| interface.is_for(kind));
        let specs: Vec<String> = specs.map(|kind| format!("{}:{name}", kind.name)).collect();
        (!specs.is_empty()).then(|| format!("{name} is an interface: {}", specs.join(" or ")))
    }
}

/// Opens the device that `spec` describes, of one of the kinds of this crate.
///
/// # Errors
/// Those of [`Registry::open`].
pub fn open(spec: &str, direction: Direction) -> Result<Opened, DeviceError> {
    Registry::default().open(spec, direction)
}

/// Opens queues of the device that `spec` describes: see [`DeviceSpec::open`].
///
/// # Errors
/// Those of [`open`].
pub fn open_queues(spec: &str, opening: Opening) -> Result<Vec<Opened>, DeviceError> {
    Registry::default().parse_for(spec, opening.direction)?.open(opening)
}
