//! What the headers of both IP versions share: their lengths, the reasons why they cannot be read, fragments.

use core::fmt;

/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header without extension headers.
pub const IPV6_BYTES: usize = 40;

/// The reason why the headers of a packet cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The frame carries no IP behind up to two VLAN tags, or another version than its EtherType says.
    NotIp,
    /// The bytes end within a header.
    Truncated,
    /// An IPv4 header claims fewer than 20 bytes, or an authentication header fewer than 12.
    Length,
    /// More than [`EXTENSIONS_MAX`](crate::EXTENSIONS_MAX) extension headers.
    TooManyExtensions,
}

impl HeaderError {
    /// The error as one phrase.
    pub fn as_str(self) -> &'static str {
        match self {
            HeaderError::NotIp => "another version of IP, or none",
            HeaderError::Truncated => "a header cut short",
            HeaderError::Length => "a header of a wrong length",
            HeaderError::TooManyExtensions => "too many IPv6 extension headers",
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for HeaderError {}

/// The part of a packet that an IP packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// The whole packet, an atomic fragment (RFC 6946) included.
    Whole,
    /// The first fragment of several: it begins with the next header, but ends early.
    First,
    /// A later fragment: it has no transport header.
    Later,
}
