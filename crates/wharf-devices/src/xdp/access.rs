//! `Access`: the sources of sockets and of the program that hands frames to them.

use super::helper;
use super::program::Source;
use super::steering::Steering;
use crate::iface::io_fault;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_sys::errno::EPERM;
use wharf_sys::unix_socket::inherited;
use wharf_sys::xdp::{self, SocketMap, XdpSocket};

/// The sources of sockets and of the program. By default this process opens and loads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Socket of a [`Helper`](helper::Helper), which gives the map of sockets, and a socket if this process may not open one.
    pub helper: Option<PathBuf>,
    /// The map of sockets (XSKMAP) of a program that is attached, or of `program`.
    pub map: Option<BpfObject>,
    /// The program to attach while the device is open, which hands frames to the sockets in `map`.
    pub program: Option<BpfObject>,
}

/// The place of a BPF object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BpfObject {
    /// A path in a BPF file system.
    Pinned(PathBuf),
    /// The number of a descriptor that this process has inherited.
    Inherited(RawFd),
}

impl BpfObject {
    /// Reads `/PATH` or `fd:NUMBER`.
    ///
    /// # Errors
    /// The values that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("fd:").and_then(|number| number.parse().ok());
        match number {
            Some(number) if number >= 0 => Ok(Self::Inherited(number)),
            _ if text.starts_with('/') => Ok(Self::Pinned(text.into())),
            _ => Err(format!("\"{}\" is no path such as /sys/fs/bpf/NAME, and no fd:N", text.escape_debug())),
        }
    }

    fn open<T>(&self, pinned: fn(&Path) -> io::Result<T>, of: fn(OwnedFd) -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Pinned(path) => pinned(path),
            Self::Inherited(number) => inherited(*number).and_then(of),
        }
    }
}

impl std::fmt::Display for BpfObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pinned(path) => path.display().to_string().escape_debug().fmt(f),
            Self::Inherited(number) => write!(f, "fd:{number}"),
        }
    }
}

impl Access {
    /// Opens a socket for `interface`.
    ///
    /// # Errors
    /// Those of [`XdpSocket::open`], or of the helper.
    pub(super) fn socket(&self, interface: &str) -> io::Result<XdpSocket> {
        match (XdpSocket::open(), &self.helper) {
            (Err(error), Some(helper)) if error.raw_os_error() == Some(EPERM) => {
                helper::socket(helper, interface)
            }
            (opened, _) => opened,
        }
    }

    /// Returns the source of the program of `interface`, which is to take the frames of `steering` if this process loads it.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the helper, the map or the program is not to be had.
    pub(super) fn source(&self, interface: &str, steering: &Steering) -> Result<Source, DeviceError> {
        let name = format!("xdp:{}", interface.escape_debug());
        let fault = |what: String| io_fault(&name, &what);
        if let Some(helper) = &self.helper {
            let shown = helper.display().to_string();
            let what = format!("no map from the helper at {}", shown.escape_debug());
            let (sockets, helper) = helper::map(helper, interface).map_err(fault(what))?;
            let helper = helper.map(Arc::new);
            return Ok(Source::Given { sockets: Arc::new(sockets), program: None, helper });
        }
        let Some(map) = &self.map else { return Ok(Source::Loaded(steering.clone())) };
        let sockets = map.open(SocketMap::pinned, SocketMap::of).map_err(fault(format!("map={map}")))?;
        let program = self.program.as_ref().map(|program| {
            let opened = program.open(xdp::Program::pinned, xdp::Program::of);
            opened.map(Arc::new).map_err(fault(format!("program={program}")))
        });
        Ok(Source::Given { sockets: Arc::new(sockets), program: program.transpose()?, helper: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_a_path_or_a_descriptor() {
        assert_eq!(BpfObject::parse("/sys/fs/bpf/a"), Ok(BpfObject::Pinned("/sys/fs/bpf/a".into())));
        assert_eq!(BpfObject::parse("fd:7"), Ok(BpfObject::Inherited(7)));
        for wrong in ["", "map", "fd:", "fd:-1", "fd:x", "7"] {
            let error = BpfObject::parse(wrong).unwrap_err();
            assert!(error.contains("fd:N"), "{wrong}: {error}");
        }
    }
}
