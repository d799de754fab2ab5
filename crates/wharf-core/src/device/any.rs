//! `AnyDevice`: a device of any kind, as opened from a specification.

use super::{Device, DeviceError, Duplex, RxDevice, TxDevice};
use std::ops::{Deref, DerefMut};

/// A device that sends, receives, or does both.
pub enum AnyDevice {
    /// Sends only.
    Tx(Box<dyn TxDevice>),
    /// Receives only.
    Rx(Box<dyn RxDevice>),
    /// Sends and receives.
    Duplex(Box<dyn Duplex>),
}

impl std::fmt::Debug for AnyDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Tx(_) => "Tx",
            Self::Rx(_) => "Rx",
            Self::Duplex(_) => "Duplex",
        };
        write!(f, "{kind}({})", self.name())
    }
}

impl AnyDevice {
    /// Makes a device that sends only.
    pub fn tx(device: impl TxDevice + 'static) -> Self {
        Self::Tx(Box::new(device))
    }

    /// Makes a device that receives only.
    pub fn rx(device: impl RxDevice + 'static) -> Self {
        Self::Rx(Box::new(device))
    }

    /// Makes a device that sends and receives.
    pub fn duplex(device: impl TxDevice + RxDevice + 'static) -> Self {
        Self::Duplex(Box::new(device))
    }

    /// Returns the transmit side, if there is one.
    pub fn as_tx(&self) -> Option<&dyn TxDevice> {
        match self {
            Self::Tx(device) => Some(&**device),
            Self::Rx(_) => None,
            Self::Duplex(device) => Some(&**device),
        }
    }

    /// Returns the receive side, if there is one.
    pub fn as_rx(&self) -> Option<&dyn RxDevice> {
        match self {
            Self::Tx(_) => None,
            Self::Rx(device) => Some(&**device),
            Self::Duplex(device) => Some(&**device),
        }
    }

    /// Returns the same as [`AnyDevice::as_tx`], mutable.
    pub fn tx_mut(&mut self) -> Option<&mut dyn TxDevice> {
        match self {
            Self::Tx(device) => Some(&mut **device),
            Self::Rx(_) => None,
            Self::Duplex(device) => Some(&mut **device),
        }
    }

    /// Returns the same as [`AnyDevice::as_rx`], mutable.
    pub fn rx_mut(&mut self) -> Option<&mut dyn RxDevice> {
        match self {
            Self::Tx(_) => None,
            Self::Rx(device) => Some(&mut **device),
            Self::Duplex(device) => Some(&mut **device),
        }
    }

    /// Uses the device to send.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it only receives.
    pub fn into_tx(self) -> Result<Box<dyn TxDevice>, DeviceError> {
        Ok(match TxSide::try_from(self)? {
            TxSide::Tx(device) => device,
            TxSide::Duplex(device) => device,
        })
    }

    /// Uses the device to receive.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it only sends.
    pub fn into_rx(self) -> Result<Box<dyn RxDevice>, DeviceError> {
        match self {
            Self::Rx(device) => Ok(device),
            Self::Duplex(device) => Ok(device),
            Self::Tx(device) => Err(unsupported(&*device, "it only sends")),
        }
    }

    /// Uses the device to send and to receive.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if it does only one of them.
    #[doc(hidden)]
    pub fn into_duplex(self) -> Result<Box<dyn Duplex>, DeviceError> {
        match self {
            Self::Duplex(device) => Ok(device),
            other => Err(unsupported(&*other, "it does not both send and receive")),
        }
    }
}

impl Deref for AnyDevice {
    type Target = dyn Device;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Tx(device) => &**device,
            Self::Rx(device) => &**device,
            Self::Duplex(device) => &**device,
        }
    }
}

impl DerefMut for AnyDevice {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Tx(device) => &mut **device,
            Self::Rx(device) => &mut **device,
            Self::Duplex(device) => &mut **device,
        }
    }
}

impl From<Box<dyn TxDevice>> for AnyDevice {
    fn from(device: Box<dyn TxDevice>) -> Self {
        Self::Tx(device)
    }
}

impl From<Box<dyn RxDevice>> for AnyDevice {
    fn from(device: Box<dyn RxDevice>) -> Self {
        Self::Rx(device)
    }
}

impl From<Box<dyn Duplex>> for AnyDevice {
    fn from(device: Box<dyn Duplex>) -> Self {
        Self::Duplex(device)
    }
}

/// The device of a transmit queue, which may receive as well.
pub enum TxSide {
    /// Sends only.
    Tx(Box<dyn TxDevice>),
    /// Sends and receives.
    Duplex(Box<dyn Duplex>),
}

impl TxSide {
    /// Returns the receive side, if there is one.
    pub fn rx(&mut self) -> Option<&mut dyn RxDevice> {
        match self {
            Self::Tx(_) => None,
            Self::Duplex(device) => Some(&mut **device),
        }
    }
}

/// [`TxDevice`] is the first supertrait of [`Duplex`]: its table of functions is the beginning of the
/// other's, so both arms are the same instructions, and a call costs what it costs by `Box<dyn TxDevice>`.
impl Deref for TxSide {
    type Target = dyn TxDevice;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Tx(device) => &**device,
            Self::Duplex(device) => &**device,
        }
    }
}

impl DerefMut for TxSide {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Tx(device) => &mut **device,
            Self::Duplex(device) => &mut **device,
        }
    }
}

impl From<Box<dyn TxDevice>> for TxSide {
    fn from(device: Box<dyn TxDevice>) -> Self {
        Self::Tx(device)
    }
}

impl TryFrom<AnyDevice> for TxSide {
    type Error = DeviceError;

    fn try_from(device: AnyDevice) -> Result<Self, DeviceError> {
        match device {
            AnyDevice::Tx(device) => Ok(Self::Tx(device)),
            AnyDevice::Duplex(device) => Ok(Self::Duplex(device)),
            AnyDevice::Rx(device) => Err(unsupported(&*device, "it only receives")),
        }
    }
}

fn unsupported(device: &(impl Device + ?Sized), what: &str) -> DeviceError {
    DeviceError::Unsupported { device: device.name(), what: what.into() }
}

/// Puts a wrapper around an [`AnyDevice`], whichever sides it has: `wrap_device!(device, |inner|
/// Wrapper::new(inner))`.
#[macro_export]
macro_rules! wrap_device {
    ($device:expr, |$inner:ident| $wrapper:expr) => {
        match $device {
            $crate::device::AnyDevice::Tx($inner) => $crate::device::AnyDevice::tx($wrapper),
            $crate::device::AnyDevice::Rx($inner) => $crate::device::AnyDevice::rx($wrapper),
            $crate::device::AnyDevice::Duplex($inner) => $crate::device::AnyDevice::duplex($wrapper),
        }
    };
}
