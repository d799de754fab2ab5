//! Driver, rings, channels and private flags of a network interface: `SIOCETHTOOL`.

use crate::call;
use crate::ifreq::{EthtoolAnswer, Request};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

// From linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GPFLAGS: u32 = 0x27;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_SS_PRIV_FLAGS: u32 = 2;
const STRING_BYTES: usize = 32;
/// Private flags are the bits of a `u32`.
const FLAGS_MAX: usize = 32;

/// Ring sizes, in descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rings {
    /// Slots of a transmit ring.
    pub tx: u32,
    /// Most slots that a transmit ring can have.
    pub tx_max: u32,
    /// Slots of a receive ring.
    pub rx: u32,
    /// Most slots that a receive ring can have.
    pub rx_max: u32,
}

/// Numbers of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Channels {
    /// Channels that only send.
    pub tx: u32,
    /// Channels that only receive.
    pub rx: u32,
    /// Channels that do both.
    pub combined: u32,
}

/// A socket for `SIOCETHTOOL`.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    private_flags: u32,
    statistics: u32,
    test_info: u32,
    eeprom_bytes: u32,
    register_bytes: u32,
}

#[repr(C)]
struct RingParameters {
    command: u32,
    rx_max: u32,
    rx_mini_max: u32,
    rx_jumbo_max: u32,
    tx_max: u32,
    rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    tx: u32,
}

#[repr(C)]
struct ChannelNumbers {
    command: u32,
    rx_max: u32,
    tx_max: u32,
    other_max: u32,
    combined_max: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    text: [[u8; STRING_BYTES]; FLAGS_MAX],
}

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

const _: () = {
    assert!(size_of::<DriverInfo>() == 196);
    assert!(size_of::<RingParameters>() == 36);
    assert!(size_of::<ChannelNumbers>() == 36);
    assert!(size_of::<Strings>() == 12 + STRING_BYTES * FLAGS_MAX);
    assert!(size_of::<Value>() == 8);
};

// SAFETY: laid out as struct ethtool_drvinfo, of fixed size.
unsafe impl EthtoolAnswer for DriverInfo {}
// SAFETY: laid out as struct ethtool_ringparam, of fixed size.
unsafe impl EthtoolAnswer for RingParameters {}
// SAFETY: laid out as struct ethtool_channels, of fixed size.
unsafe impl EthtoolAnswer for ChannelNumbers {}
// SAFETY: laid out as struct ethtool_gstrings. It is used for private flags only, of which there are at most
// 32: the kernel keeps them in a u32.
unsafe impl EthtoolAnswer for Strings {}
// SAFETY: laid out as struct ethtool_value, of fixed size.
unsafe impl EthtoolAnswer for Value {}

impl Ethtool {
    /// Opens a socket; needs no privilege.
    ///
    /// # Errors
    /// Those of `socket(2)`.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: call::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)? })
    }

    fn ask<T: EthtoolAnswer>(&self, interface: &str, answer: &mut T) -> io::Result<()> {
        Request::named(interface)?.ask_ethtool(self.socket.as_fd(), answer)
    }

    /// Returns the driver's name and its number of private flags.
    ///
    /// # Errors
    /// Those of `ioctl(2)`: `ENODEV` without such an interface, `EOPNOTSUPP` if the driver does not answer.
    pub fn driver(&self, interface: &str) -> io::Result<(String, u32)> {
        let mut answer = DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            rom: [0; 32],
            reserved: [0; 12],
            private_flags: 0,
            statistics: 0,
            test_info: 0,
            eeprom_bytes: 0,
            register_bytes: 0,
        };
        self.ask(interface, &mut answer)?;
        Ok((text(&answer.driver), answer.private_flags))
    }

    /// Returns the sizes of the rings.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn rings(&self, interface: &str) -> io::Result<Rings> {
        let mut answer = RingParameters {
            command: ETHTOOL_GRINGPARAM,
            rx_max: 0,
            rx_mini_max: 0,
            rx_jumbo_max: 0,
            tx_max: 0,
            rx: 0,
            rx_mini: 0,
            rx_jumbo: 0,
            tx: 0,
        };
        self.ask(interface, &mut answer)?;
        Ok(Rings { rx: answer.rx, tx: answer.tx, rx_max: answer.rx_max, tx_max: answer.tx_max })
    }

    /// Returns the numbers of channels.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn channels(&self, interface: &str) -> io::Result<Channels> {
        let mut answer = ChannelNumbers {
            command: ETHTOOL_GCHANNELS,
            rx_max: 0,
            tx_max: 0,
            other_max: 0,
            combined_max: 0,
            rx: 0,
            tx: 0,
            other: 0,
            combined: 0,
        };
        self.ask(interface, &mut answer)?;
        Ok(Channels { rx: answer.rx, tx: answer.tx, combined: answer.combined })
    }

    /// Returns the driver's private flags, by name.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn private_flags(&self, interface: &str) -> io::Result<Vec<(String, bool)>> {
        let (_, count) = self.driver(interface)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if count as usize > FLAGS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EOVERFLOW));
        }
        let text_of = [[0; STRING_BYTES]; FLAGS_MAX];
        let mut names =
            Box::new(Strings { command: ETHTOOL_GSTRINGS, set: ETH_SS_PRIV_FLAGS, count, text: text_of });
        self.ask(interface, &mut *names)?;
        let mut flags = Value { command: ETHTOOL_GPFLAGS, data: 0 };
        self.ask(interface, &mut flags)?;
        let names = names.text.iter().take(count as usize).enumerate();
        Ok(names.map(|(bit, name)| (text(name), flags.data >> bit & 1 == 1)).collect())
    }
}

/// Makes the kernel catch up with the carrier of the interface of `request`: `ETHTOOL_GLINK` does so before it answers.
pub(crate) fn sync_carrier(socket: BorrowedFd<'_>, request: &mut Request) -> io::Result<()> {
    request.ask_ethtool(socket, &mut Value { command: ETHTOOL_GLINK, data: 0 })
}

/// Returns the text before the first zero, or all of it.
fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_first_zero() {
        assert_eq!((text(b"ab\0c"), text(b"ab"), text(b"")), ("ab".into(), "ab".into(), String::new()));
    }
}
