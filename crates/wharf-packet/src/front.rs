//! `Front`: a packet in front of which headers are written, and `NoRoom` for them.

use crate::gso::GsoRequest;
use core::fmt;

/// Bytes do not fit a packet, or it has fewer than are to be taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes asked for.
    pub bytes: usize,
    /// The upper bound, bytes.
    pub max_bytes: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room for {} B: at most {} B", self.bytes, self.max_bytes)
    }
}

impl core::error::Error for NoRoom {}

/// A packet that headers are put in front of, such as `wharf::Packet`: see
/// [`UdpHeaders::put`](crate::UdpHeaders::put).
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::gso::GsoRequest;
/// use wharf::net::{Datagram, Ecn, Front, NoRoom, UdpHeaders, checksum};
///
/// /// A packet of one's own, which leaves nothing to a device.
/// struct Mine(Vec<u8>);
///
/// impl Front for Mine {
///     fn len_bytes(&self) -> usize {
///         self.0.len()
///     }
///
///     fn finish(&mut self) -> u64 {
///         checksum::sum(&self.0)
///     }
///
///     fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom> {
///         self.0.splice(0..0, (0..bytes).map(|_| 0));
///         Ok(&mut self.0[..bytes])
///     }
///
///     fn request(&mut self, request: &GsoRequest, transport_at: u16) {
///         println!("cut {} bytes behind {transport_at}", request.segment_bytes);
///     }
/// }
///
/// let (client, server) = ("192.0.2.1:5000".parse().unwrap(), "198.51.100.1:9".parse().unwrap());
/// let headers = UdpHeaders::between(client, server).expect("one version of IP");
/// let mut packet = Mine(b"payload".to_vec());
/// headers.ecn(Ecn::Ect0).dont_fragment().put(&mut packet)?;
/// let datagram = Datagram::parse(&packet.0).expect("a whole datagram");
/// assert_eq!((datagram.payload, datagram.ecn), (&b"payload"[..], Ecn::Ect0));
/// // Three datagrams of 1000, 1000 and 500 bytes.
/// headers.identification(7).put_segmented(&mut Mine(vec![1; 2500]), 1000)?;
/// # Ok::<(), NoRoom>(())
/// ```
pub trait Front {
    /// Returns the bytes of the packet; of a chain, of all its parts.
    fn len_bytes(&self) -> usize;

    /// Finishes what was left to a device: fills in its checksum, and withdraws the request to cut it.
    /// Returns the sum of all its bytes, to be [`fold`](crate::checksum::fold)ed.
    fn finish(&mut self) -> u64;

    /// Works like [`Front::finish`], where something was left to a device.
    fn complete(&mut self) {
        _ = self.finish();
    }

    /// Makes the packet longer by `bytes` at the front, and returns them to be written.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is changed then.
    fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoom>;

    /// Asks the device to cut the packet, whose UDP header is at `transport_at`, and to fill in the
    /// checksums.
    fn request(&mut self, request: &GsoRequest, transport_at: u16);
}
