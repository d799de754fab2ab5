//! A device with memory, driven by hand, and plain sockets at the other end.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, Completions};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::open::{Direction, open};
use wharf_mem::{Batch, Frame};

/// Time limit for sent frames to arrive.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A plain socket at `local`, and its address.
pub fn socket(local: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

pub struct Rig {
    pub device: AnyDevice,
    pub pool: PagePool,
    pub cache: Cache,
    pub batch: Batch,
    pub done: Completions,
    pub failed: Vec<&'static str>,
    pub errors: Vec<String>,
}

impl Rig {
    pub fn open(spec: &str, direction: Direction) -> Self {
        Self::with(spec, direction, wharf_testkit::pool(1024))
    }

    pub fn with(spec: &str, direction: Direction, pool: PagePool) -> Self {
        let mut device = open(spec, direction).unwrap().device;
        device.attach(pool.region().clone()).unwrap();
        let cache = pool.cache("test").unwrap();
        let (batch, done) = (Batch::new(256), Completions::new(256));
        Self { device, pool, cache, batch, done, failed: Vec::new(), errors: Vec::new() }
    }

    /// Adds a frame of these bytes, in as many pieces as it takes.
    pub fn offer(&mut self, bytes: &[u8]) {
        let region = self.pool.region().clone();
        let mut pieces = bytes.chunks(region.data_bytes_max() as usize).map(|piece| {
            let mut one = Batch::new(1);
            self.cache.take(&mut one, 1, piece.len() as u32).unwrap();
            let mut frame = one.pop().unwrap();
            region.bytes_mut(&mut frame).unwrap().copy_from_slice(piece);
            frame
        });
        let mut head = pieces.next().unwrap();
        pieces.for_each(|piece| region.link(&mut head, piece).unwrap());
        self.batch.push(head).unwrap();
    }

    /// Sends all offered frames. Returns the number completed as sent.
    pub fn send(&mut self) -> usize {
        let (until, mut sent) = (Instant::now() + PATIENCE, 0);
        while !self.batch.is_empty() || self.device.as_tx().unwrap().outstanding() > 0 {
            assert!(Instant::now() < until, "stuck with {}", self.batch.len());
            self.device.tx_mut().unwrap().transmit(&mut self.batch, false);
            self.errors.extend(
                self.device
                    .tx_mut()
                    .unwrap()
                    .reap(256, false, &mut self.done)
                    .err()
                    .map(|error| error.to_string()),
            );
            sent += self.done.sent.len();
            self.cache.give(&mut self.done.sent).unwrap();
            for (frame, reason) in self.done.failed.drain(..) {
                self.failed.push(reason);
                self.cache.give_one(frame).unwrap();
            }
        }
        sent
    }

    /// Receives `count` frames, `budget` at a time.
    pub fn receive(&mut self, count: usize, budget: usize) -> Vec<Vec<u8>> {
        let (until, mut received) = (Instant::now() + PATIENCE, Vec::new());
        let mut batch = Batch::new(256);
        while received.len() < count && Instant::now() < until {
            let number = self.device.rx_mut().unwrap().receive(&mut self.cache, &mut batch, budget).unwrap();
            assert!(number <= budget && number == batch.len());
            let region = self.pool.region();
            let bytes = |frame: &Frame| region.chunks(frame).unwrap().flatten().copied().collect::<Vec<u8>>();
            received.extend(batch.frames().iter().map(bytes));
            self.cache.give(&mut batch).unwrap();
        }
        received
    }

    pub fn assert_all_home(&mut self) {
        assert_eq!((self.batch.len(), self.device.as_tx().unwrap().outstanding()), (0, 0));
        assert_eq!(self.pool.audit().out(), 0);
    }
}

/// An Ethernet frame with a datagram from `from` to `to`, made by an independent library.
pub fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => builder.ipv4(from.ip().octets(), to.ip().octets(), 64),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => builder.ipv6(from.ip().octets(), to.ip().octets(), 64),
        mixed => panic!("{mixed:?}"),
    };
    let mut bytes = Vec::new();
    builder.udp(from.port(), to.port()).write(&mut bytes, payload).unwrap();
    bytes
}

/// Returns source, destination and payload of a frame's datagram. Checks all lengths and checksums.
pub fn parsed(frame: &[u8]) -> (SocketAddr, SocketAddr, Vec<u8>) {
    let packet = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
    let (Some(net), Some(etherparse::TransportSlice::Udp(udp))) = (packet.net, packet.transport) else {
        panic!("no datagram: {frame:x?}");
    };
    let (ends, checksum) = match net {
        etherparse::NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), frame.len() - 14);
            let checksum =
                udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, udp.payload());
            ((header.source.into(), header.destination.into()), checksum)
        }
        etherparse::NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length), frame.len() - 54);
            let checksum =
                udp.to_header().calc_checksum_ipv6_raw(header.source, header.destination, udp.payload());
            ((header.source.into(), header.destination.into()), checksum)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(udp.checksum(), checksum.unwrap(), "checksum");
    let (from, to): (std::net::IpAddr, std::net::IpAddr) = ends;
    ((from, udp.source_port()).into(), (to, udp.destination_port()).into(), udp.payload().to_vec())
}
