//! One end of a forwarder: a device, or one for each direction.

use wharf_core::device::{AnyDevice, Device, DeviceError, Duplex, RxDevice, TxDevice};
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Direction, Kind, Opened, Queues};

/// One end of a forwarder.
pub enum End {
    /// A device that sends and receives.
    One(Box<dyn Duplex>),
    /// A device that sends, and another one that receives.
    Two {
        /// The device that sends.
        sending: Box<dyn TxDevice>,
        /// The device that receives.
        receiving: Box<dyn RxDevice>,
    },
    /// A device that only receives.
    Source(Box<dyn RxDevice>),
    /// A device that only sends.
    Sink(Box<dyn TxDevice>),
}

/// The place of an end in a forwarder: a capture is read at the first and written at the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first end.
    First,
    /// The second end.
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
        spec.open(direction, queues)?.into_iter().map(Self::of).collect()
    }

    fn of(opened: Opened) -> Result<Self, DeviceError> {
        let Opened { device, receiving, far_end, .. } = opened;
        if far_end.is_some() {
            let what = "its other end is in this process, where nobody is".into();
            return Err(DeviceError::Unsupported { device: device.name(), what });
        }
        Ok(match (device, receiving) {
            (AnyDevice::Tx(sending), Some(receiving)) => End::Two { sending, receiving },
            (device, _) => device.into(),
        })
    }

    /// Returns its device's name.
    pub fn name(&self) -> String {
        match self {
            End::One(device) => device.name(),
            End::Two { sending: device, .. } | End::Sink(device) => device.name(),
            End::Source(device) => device.name(),
        }
    }

    /// Puts the wrapper that `wrap` makes around the device that sends, if there is one.
    pub fn wrap_sending(self, wrap: impl FnOnce(AnyDevice) -> AnyDevice) -> Self {
        let (device, receiving) = match self {
            End::One(device) => (device.into(), None),
            End::Two { sending, receiving } => (sending.into(), Some(receiving)),
            End::Sink(device) => (device.into(), None),
            End::Source(_) => return self,
        };
        match (wrap(device), receiving) {
            (AnyDevice::Tx(sending), Some(receiving)) => End::Two { sending, receiving },
            (device, _) => device.into(),
        }
    }
}

impl From<AnyDevice> for End {
    fn from(device: AnyDevice) -> Self {
        match device {
            AnyDevice::Tx(device) => End::Sink(device),
            AnyDevice::Rx(device) => End::Source(device),
            AnyDevice::Duplex(device) => End::One(device),
        }
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
    /// The device that sends; `Duplex` receives as well.
    sending: Option<AnyDevice>,
    receiving: Option<Box<dyn RxDevice>>,
    /// True if one device does both.
    pub(super) is_one: bool,
}

impl From<End> for Sides {
    fn from(end: End) -> Self {
        let (name, is_one) = (end.name(), matches!(end, End::One(_)));
        let (sending, receiving) = match end {
            End::One(device) => (Some(device.into()), None),
            End::Sink(device) => (Some(device.into()), None),
            End::Two { sending, receiving } => (Some(sending.into()), Some(receiving)),
            End::Source(device) => (None, Some(device)),
        };
        Self { name, sending, receiving, is_one }
    }
}

impl Sides {
    pub(super) fn receives(&self) -> bool {
        self.is_one || self.receiving.is_some()
    }

    /// Returns true if super-packets may arrive.
    pub(super) fn receives_super_packets(&self) -> bool {
        let of_one = self.sending.as_ref().and_then(AnyDevice::as_rx);
        self.receiving.as_deref().or(of_one).is_some_and(|device| device.receives_super_packets())
    }

    pub(super) fn sends(&self) -> bool {
        self.sending.is_some()
    }

    /// Takes the device that sends.
    pub(super) fn take_sending(&mut self) -> Option<AnyDevice> {
        self.sending.take()
    }

    /// Takes the device that receives, unless a queue has it already.
    pub(super) fn take_receiving(&mut self) -> Option<Box<dyn RxDevice>> {
        let of_one = || if self.is_one { self.sending.take()?.into_rx().ok() } else { None };
        self.receiving.take().or_else(of_one)
    }
}
