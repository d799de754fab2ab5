//! One end of a forwarder: a device, or one for each way.

use wharf_core::device::{Device, DeviceError};
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Direction, Kind, Opened, Queues};

/// One end.
pub enum End {
    /// A device that sends and receives.
    One(Box<dyn Device>),
    /// A device that sends, and another one that receives.
    Two {
        /// Sends.
        sending: Box<dyn Device>,
        /// Receives.
        receiving: Box<dyn Device>,
    },
    /// It only receives.
    Source(Box<dyn Device>),
    /// It only sends.
    Sink(Box<dyn Device>),
}

/// Which end of a forwarder: a capture is read at the first and written at the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first.
    First,
    /// The second.
    Second,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            End::One(_) => "One",
            End::Two { .. } => "Two",
            End::Source(_) => "Source",
            End::Sink(_) => "Sink",
        };
        write!(f, "{kind}({})", self.name())
    }
}

impl End {
    /// Opens the device that `spec` describes, of one of the kinds of `wharf-devices`, as one end.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for a specification that cannot be, and those of [`End::open_queues`].
    pub fn open(spec: &str, place: Place) -> Result<Self, DeviceError> {
        let one = Self::open_queues(&Registry::default().parse(spec)?, place, Queues::default())?.pop();
        one.ok_or_else(|| DeviceError::Unsupported { device: spec.into(), what: "no queue".into() })
    }

    /// Opens queues of the device that `spec` describes, each device as an end: see [`DeviceSpec::open`].
    ///
    /// # Errors
    /// Those of [`DeviceSpec::open`], and [`DeviceError::Unsupported`] for a kind whose other end is in this process, where nothing
    /// would serve it.
    pub fn open_queues(spec: &DeviceSpec, place: Place, queues: Queues) -> Result<Vec<Self>, DeviceError> {
        let direction = direction(spec.kind(), place);
        spec.open(direction, queues)?.into_iter().map(|opened| Self::of(opened, direction)).collect()
    }

    fn of(opened: Opened, direction: Direction) -> Result<Self, DeviceError> {
        Ok(match (direction, opened) {
            (Direction::Receive, Opened { device, .. }) => End::Source(device),
            (Direction::Send, Opened { device, .. }) => End::Sink(device),
            (Direction::Both, Opened { device, far_end: Some(_), .. }) => {
                let what = "its other end is in this process, where nobody is".into();
                return Err(DeviceError::Unsupported { device: device.name(), what });
            }
            (Direction::Both, Opened { device, receiving: Some(receiving), .. }) => {
                End::Two { sending: device, receiving }
            }
            (Direction::Both, Opened { device, .. }) => End::One(device),
        })
    }

    /// Its device's name.
    pub fn name(&self) -> String {
        match self {
            End::One(device) | End::Source(device) | End::Sink(device) => device.name(),
            End::Two { sending, .. } => sending.name(),
        }
    }

    /// Puts a wrapper around what sends, if anything does.
    ///
    /// # Errors
    /// Those of `wrap`.
    pub fn wrap_sending<E>(
        self, wrap: impl FnOnce(Box<dyn Device>) -> Result<Box<dyn Device>, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            End::One(device) => End::One(wrap(device)?),
            End::Two { sending, receiving } => End::Two { sending: wrap(sending)?, receiving },
            End::Sink(device) => End::Sink(wrap(device)?),
            End::Source(device) => End::Source(device),
        })
    }
}

/// Returns what a device of `kind` does at `place`: both, or the one that it can, or that the place is for.
fn direction(kind: &Kind, place: Place) -> Direction {
    match place {
        _ if kind.can.both => Direction::Both,
        Place::First if kind.can.receive => Direction::Receive,
        Place::Second if !kind.can.send => Direction::Receive,
        _ => Direction::Send,
    }
}

/// The sides of an end, until they are taken.
pub(super) struct Sides {
    pub(super) name: String,
    pub(super) sending: Option<Box<dyn Device>>,
    receiving: Option<Box<dyn Device>>,
    /// What sends receives as well.
    pub(super) is_one: bool,
}

impl From<End> for Sides {
    fn from(end: End) -> Self {
        let (name, is_one) = (end.name(), matches!(end, End::One(_)));
        let (sending, receiving) = match end {
            End::One(device) | End::Sink(device) => (Some(device), None),
            End::Two { sending, receiving } => (Some(sending), Some(receiving)),
            End::Source(device) => (None, Some(device)),
        };
        Self { name, sending, receiving, is_one }
    }
}

impl Sides {
    pub(super) fn receives(&self) -> bool {
        self.is_one || self.receiving.is_some()
    }

    /// Whether what receives may give super-packets.
    pub(super) fn receives_super_packets(&self) -> bool {
        let of_one = self.sending.as_ref().filter(|_| self.is_one);
        self.receiving.as_ref().or(of_one).is_some_and(|device| device.receives_super_packets())
    }

    pub(super) fn sends(&self) -> bool {
        self.sending.is_some()
    }

    /// What receives, unless a queue has it already.
    pub(super) fn take_receiving(&mut self) -> Option<Box<dyn Device>> {
        let of_one = || if self.is_one { self.sending.take() } else { None };
        self.receiving.take().or_else(of_one)
    }
}
