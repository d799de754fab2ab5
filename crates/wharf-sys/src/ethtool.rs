//! Driver, rings, channels and private flags of a network interface: `SIOCETHTOOL`.

use crate::call;
use crate::ifreq::Request;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A command (linux/ethtool.h) whose structure has `WORDS` words; the first is the command.
struct Command<const WORDS: usize>(u32);

const DRIVER_INFO: Command<49> = Command(0x03);
const LINK: Command<2> = Command(0x0a);
const RING_PARAMETERS: Command<9> = Command(0x10);
/// Of private flags only, which are the bits of a `u32`.
const STRINGS: Command<{ 3 + FLAGS_MAX * STRING_WORDS }> = Command(0x1b);
const FLAGS: Command<2> = Command(0x25);
const PRIVATE_FLAGS: Command<2> = Command(0x27);
const CHANNEL_NUMBERS: Command<9> = Command(0x3c);

const ETH_SS_PRIV_FLAGS: u32 = 2;
const STRING_WORDS: usize = 32 / size_of::<u32>();
const FLAGS_MAX: usize = 32;

impl<const WORDS: usize> Command<WORDS> {
    /// Asks about the interface of `request`; `question` is the part of the structure that the kernel reads. Returns the
    /// structure.
    fn ask(
        self, socket: BorrowedFd<'_>, request: &mut Request, question: &[u32],
    ) -> io::Result<[u32; WORDS]> {
        let mut words = [0; WORDS];
        words[0] = self.0;
        words[1..=question.len()].copy_from_slice(question);
        // SAFETY: the command's structure is so long. That of `STRINGS` has room for all private flags.
        unsafe { request.ask_ethtool(socket, &mut words) }?;
        Ok(words)
    }
}

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

/// The texts of a driver (`struct ethtool_drvinfo`); a driver leaves out what it does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Name.
    pub name: String,
    /// Version; drivers of the kernel's own source have the kernel's.
    pub version: String,
    /// Version of the adapter's firmware.
    pub firmware: String,
    /// Place on the bus, such as a PCI address.
    pub bus: String,
}

/// Offloads of an interface that change frames or steer them (`ETHTOOL_GFLAGS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// VLAN tags are taken out of frames that arrive (`rxvlan`).
    pub rx_vlan: bool,
    /// Segments that arrive are merged by the adapter (`lro`).
    pub lro: bool,
    /// Rules steer flows to queues (`ntuple`).
    pub ntuple: bool,
}

/// A socket for `SIOCETHTOOL`.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens a socket; needs no privilege.
    ///
    /// # Errors
    /// Those of `socket(2)`.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: call::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)? })
    }

    fn ask<const WORDS: usize>(
        &self, interface: &str, command: Command<WORDS>, question: &[u32],
    ) -> io::Result<[u32; WORDS]> {
        command.ask(self.socket.as_fd(), &mut Request::named(interface)?, question)
    }

    /// Returns the driver's name and its number of private flags.
    ///
    /// # Errors
    /// Those of `ioctl(2)`: `ENODEV` without such an interface, `EOPNOTSUPP` if the driver does not answer.
    pub fn driver(&self, interface: &str) -> io::Result<(String, u32)> {
        // Five strings (driver, version, firmware, bus, ROM) and 12 bytes precede the number.
        let words = self.ask(interface, DRIVER_INFO, &[])?;
        Ok((text(&words[1..=STRING_WORDS]), words[1 + 5 * STRING_WORDS + 3]))
    }

    /// Returns the driver's texts.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn driver_info(&self, interface: &str) -> io::Result<DriverInfo> {
        let words = self.ask(interface, DRIVER_INFO, &[])?;
        let part = |at: usize| text(&words[1 + at * STRING_WORDS..1 + (at + 1) * STRING_WORDS]);
        Ok(DriverInfo { name: part(0), version: part(1), firmware: part(2), bus: part(3) })
    }

    /// Returns the offloads that change or steer frames.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn offloads(&self, interface: &str) -> io::Result<Offloads> {
        let [_, flags] = self.ask(interface, FLAGS, &[])?;
        // `ETH_FLAG_RXVLAN`, `ETH_FLAG_LRO`, `ETH_FLAG_NTUPLE`.
        let has = |bit: u32| flags >> bit & 1 == 1;
        Ok(Offloads { rx_vlan: has(8), lro: has(15), ntuple: has(27) })
    }

    /// Returns the sizes of the rings.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn rings(&self, interface: &str) -> io::Result<Rings> {
        // Between those: mini and jumbo receive rings.
        let [_, rx_max, _, _, tx_max, rx, _, _, tx] = self.ask(interface, RING_PARAMETERS, &[])?;
        Ok(Rings { rx, tx, rx_max, tx_max })
    }

    /// Returns the numbers of channels.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn channels(&self, interface: &str) -> io::Result<Channels> {
        // Before those: the most of each kind. Between them: channels that do neither.
        let [_, _, _, _, _, rx, tx, _, combined] = self.ask(interface, CHANNEL_NUMBERS, &[])?;
        Ok(Channels { rx, tx, combined })
    }

    /// Returns the most channels that the driver can have.
    ///
    /// # Errors
    /// Those of [`Ethtool::driver`].
    pub fn channels_max(&self, interface: &str) -> io::Result<Channels> {
        let [_, rx, tx, _, combined, ..] = self.ask(interface, CHANNEL_NUMBERS, &[])?;
        Ok(Channels { rx, tx, combined })
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
        let names = self.ask(interface, STRINGS, &[ETH_SS_PRIV_FLAGS, count])?;
        let [_, flags] = self.ask(interface, PRIVATE_FLAGS, &[])?;
        let names = names[3..].chunks_exact(STRING_WORDS).take(count as usize).enumerate();
        Ok(names.map(|(bit, name)| (text(name), flags >> bit & 1 == 1)).collect())
    }
}

/// Makes the kernel catch up with the carrier of the interface of `request`: `ETHTOOL_GLINK` does so before it answers.
pub(crate) fn sync_carrier(socket: BorrowedFd<'_>, request: &mut Request) -> io::Result<()> {
    LINK.ask(socket, request, &[]).map(drop)
}

/// Returns the text before the first zero byte, or all of it.
fn text(words: &[u32]) -> String {
    crate::call::text(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_first_zero() {
        let words = [*b"abcd", *b"e\0fg"].map(u32::from_ne_bytes);
        assert_eq!(
            (text(&words), text(&words[..1]), text(&[])),
            ("abcde".into(), "abcd".into(), String::new())
        );
    }
}
