//! `OpenError`: the reason that a port cannot be opened.

use wharf_core::device::{DeviceError, Refusal};
use wharf_core::queue::QueueError;
use wharf_devices::registry::Registry;
use wharf_sys::errno::{
    EACCES, EADDRINUSE, EBUSY, EEXIST, ENETDOWN, ENOBUFS, ENODEV, ENOMEM, ENXIO, EOPNOTSUPP, EPERM,
};

/// The reason that a port cannot be opened: one line that says what helps, a kind to match, and the system's answer as its source.
///
/// ```
/// use wharf::{Direction, OpenErrorKind, Port};
///
/// let error = Port::open("carrier-pigeon:eth0", Direction::Send).unwrap_err();
/// assert_eq!(error.kind(), OpenErrorKind::UnknownKind);
/// ```
#[derive(Debug)]
pub struct OpenError {
    kind: OpenErrorKind,
    device: String,
    error: QueueError,
}

/// The kinds of [`OpenError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenErrorKind {
    /// There is no kind of device of this name.
    UnknownKind,
    /// The specification has a key or a value that cannot be, or lacks one.
    BadKey,
    /// There is no such interface in this network namespace.
    NoSuchInterface,
    /// The interface has no such queue.
    NoSuchQueue,
    /// The interface is switched off.
    Down,
    /// The process lacks a capability, or may not open the file.
    NotPermitted,
    /// Another program, or another port, has the queue, the address or the interface.
    InUse,
    /// The pool's memory exceeds the limit of locked memory.
    LockedMemory,
    /// There is no memory for the pool.
    Memory,
    /// A setting is out of its bounds, or cannot be with the others.
    Setting,
    /// The device, the driver or the kernel cannot do this.
    Unsupported,
    /// Another answer of the system.
    Io,
}

/// What an error is to say about a specification.
pub(crate) struct Refusing {
    pub(crate) spec: String,
    /// What reads it; `None` if it was read before.
    pub(crate) registry: Option<Registry>,
}

impl Refusing {
    pub(crate) fn error(self, error: QueueError) -> OpenError {
        let Self { spec, registry } = self;
        let name = spec.split([':', ',']).next().unwrap_or_default();
        let has = |registry: Registry| registry.kinds().iter().any(|kind| kind.name == name);
        let kind = match kind_of(&error) {
            OpenErrorKind::BadKey if !registry.is_none_or(has) => OpenErrorKind::UnknownKind,
            kind => kind,
        };
        OpenError { kind, device: spec, error }
    }
}

impl OpenError {
    /// Returns what kind of error it is.
    pub fn kind(&self) -> OpenErrorKind {
        self.kind
    }

    /// Returns the specification of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns what helps against errors of this kind, in one sentence.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self.kind {
            OpenErrorKind::UnknownKind | OpenErrorKind::BadKey => {
                "`wharf devices` lists the kinds and their keys"
            }
            OpenErrorKind::NoSuchInterface => "`ip link` lists the interfaces of this network namespace",
            OpenErrorKind::NoSuchQueue => "`ethtool -l INTERFACE` lists its queues",
            OpenErrorKind::Down => "`ip link set INTERFACE up` switches it on",
            OpenErrorKind::NotPermitted => "`wharf doctor SPEC` says which capability it takes",
            OpenErrorKind::LockedMemory => "raise the limit (`ulimit -l`), or use fewer frames",
            OpenErrorKind::Memory => "use fewer frames",
            _ => return None,
        })
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for OpenError {
    /// Returns the system's answer, if it was asked.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

fn kind_of(error: &QueueError) -> OpenErrorKind {
    let error = match error {
        QueueError::Pool(_) => return OpenErrorKind::Memory,
        QueueError::Setting { .. } | QueueError::Misuse { .. } => return OpenErrorKind::Setting,
        QueueError::System { source, .. } => return kind_of_io(source),
        QueueError::Device(error) => error,
        _ => return OpenErrorKind::Unsupported,
    };
    kind_of_device(error)
}

pub(crate) fn kind_of_device(error: &DeviceError) -> OpenErrorKind {
    match error {
        DeviceError::Refused { why: Refusal::BadKey, .. } => OpenErrorKind::BadKey,
        DeviceError::Refused { why: Refusal::NoSuchQueue, .. } => OpenErrorKind::NoSuchQueue,
        DeviceError::Refused { why: Refusal::LockedMemory, .. } => OpenErrorKind::LockedMemory,
        DeviceError::Down { .. } => OpenErrorKind::Down,
        DeviceError::Gone { .. } => OpenErrorKind::NoSuchInterface,
        DeviceError::Memory { .. } => OpenErrorKind::Memory,
        DeviceError::Unsupported { .. } => OpenErrorKind::Unsupported,
        DeviceError::Io { source, .. } => kind_of_io(source),
        _ => OpenErrorKind::Io,
    }
}

fn kind_of_io(error: &std::io::Error) -> OpenErrorKind {
    match error.raw_os_error() {
        Some(ENODEV | ENXIO) => OpenErrorKind::NoSuchInterface,
        Some(EPERM | EACCES) => OpenErrorKind::NotPermitted,
        Some(EBUSY | EADDRINUSE | EEXIST) => OpenErrorKind::InUse,
        Some(ENETDOWN) => OpenErrorKind::Down,
        Some(ENOMEM | ENOBUFS) => OpenErrorKind::Memory,
        Some(EOPNOTSUPP) => OpenErrorKind::Unsupported,
        None if error.kind() == std::io::ErrorKind::PermissionDenied => OpenErrorKind::NotPermitted,
        _ => OpenErrorKind::Io,
    }
}
