//! One end of a forwarder: a device, or one for each direction.

use wharf_core::device::{AnyDevice, DeviceError, RxDevice};
use wharf_devices::spec::{DeviceSpec, Direction, Kind, Opened, Queues};

/// One end.
pub struct End {
    pub(super) name: String,
    /// The device that sends, until it is taken; `Duplex` receives as well.
    sending: Option<AnyDevice>,
    /// The receive side, where that is a device of its own.
    receiving: Option<Box<dyn RxDevice>>,
    super_packets: bool,
    /// True if one device does both.
    pub(super) is_one: bool,
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
        write!(f, "End({}, receives apart: {})", self.name, self.receiving.is_some())
    }
}

impl End {
    /// Opens queues of the device that `spec` describes, each device as an end: see [`DeviceSpec::open`].
    ///
    /// # Errors
    /// Those of [`DeviceSpec::open`], and of [`End::of`].
    pub fn open_queues(spec: &DeviceSpec, place: Place, queues: Queues) -> Result<Vec<Self>, DeviceError> {
        spec.open(place.direction(spec.kind()), queues)?.into_iter().map(Self::of).collect()
    }

    /// Makes an end of a device that was opened for its place.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for a kind whose other end is in this process, where nothing would serve it.
    pub fn of(opened: Opened) -> Result<Self, DeviceError> {
        let Opened { device, receiving, far_end, super_packets, .. } = opened;
        if far_end.is_some() {
            let what = "its other end is in this process, where nothing uses it".into();
            return Err(DeviceError::Unsupported { device: device.name(), what });
        }
        Ok(Self::new(device, receiving, super_packets))
    }

    fn new(device: AnyDevice, receiving: Option<Box<dyn RxDevice>>, super_packets: bool) -> Self {
        let (name, is_one) = (device.name(), matches!(device, AnyDevice::Duplex(_)));
        let (sending, receiving) = match device {
            AnyDevice::Rx(device) => (None, Some(device)),
            device => (Some(device), receiving),
        };
        Self { name, sending, receiving, super_packets, is_one }
    }

    /// Puts the wrapper that `wrap` makes around the device that sends, if there is one.
    #[must_use]
    pub fn wrap_sending(self, wrap: impl FnOnce(AnyDevice) -> AnyDevice) -> Self {
        Self { sending: self.sending.map(wrap), ..self }
    }

    pub(super) fn receives(&self) -> bool {
        self.is_one || self.receiving.is_some()
    }

    /// Returns true if super-packets may arrive.
    pub(super) fn receives_super_packets(&self) -> bool {
        self.receives() && self.super_packets
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

impl From<AnyDevice> for End {
    fn from(device: AnyDevice) -> Self {
        Self::new(device, None, false)
    }
}

impl Place {
    /// Returns the directions of a device of `kind` at this place: both, or the only one of the kind or the place.
    pub fn direction(self, kind: &Kind) -> Direction {
        match self {
            _ if kind.can.both => Direction::Both,
            Place::First if kind.can.receive => Direction::Receive,
            Place::Second if !kind.can.send => Direction::Receive,
            _ => Direction::Send,
        }
    }
}
