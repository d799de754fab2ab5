//! smoltcp over a wire in virtual time: two interfaces, a rate, a delay, nothing lost.

use crate::path::Way;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;

/// Ethernet's header and the bytes around a frame.
const AROUND_BYTES: u64 = 14 + 24;

/// One end: frames received, and frames sent.
#[derive(Default)]
struct End {
    inbox: VecDeque<Vec<u8>>,
    outbox: Vec<Vec<u8>>,
}

struct Take(Vec<u8>);
struct Put<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Take {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Put<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for End {
    type RxToken<'a> = Take;
    type TxToken<'a> = Put<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Take, Put<'_>)> {
        Some((Take(self.inbox.pop_front()?), Put(&mut self.outbox)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Put<'_>> {
        Some(Put(&mut self.outbox))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        // Without a bound it takes the window for one burst (smoltcp#949).
        capabilities.max_burst_size = Some(64);
        capabilities
    }
}

struct Host {
    end: End,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    free_ns: u64,
    /// Frames in flight to the other host.
    under_way: VecDeque<(u64, Vec<u8>)>,
}

impl Host {
    fn new(number: u8, window_bytes: usize) -> Self {
        let mut end = End::default();
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut end, Instant::ZERO);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(IpAddress::v4(10, 0, 0, number), 24)).unwrap());
        let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(window_bytes), buffer(4 << 20));
        socket.set_congestion_control(CongestionControl::Reno);
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(socket);
        Self { end, interface, sockets, socket, free_ns: 0, under_way: VecDeque::new() }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Lets the interface work at `now_ns`; its frames are then in flight.
    fn poll(&mut self, now_ns: u64, way: Way) {
        self.interface.poll(instant(now_ns), &mut self.end, &mut self.sockets);
        for packet in std::mem::take(&mut self.end.outbox) {
            let bits = (packet.len() as u64 + AROUND_BYTES) * 8;
            self.free_ns = self.free_ns.max(now_ns) + bits * 1_000_000_000 / way.bits_per_s;
            self.under_way.push_back((self.free_ns + way.delay_ns, packet));
        }
    }

    fn due_ns(&mut self, now_ns: u64) -> u64 {
        let arrival = self.under_way.front().map(|&(at_ns, _)| at_ns);
        let own = self.interface.poll_at(instant(now_ns), &self.sockets);
        let own = own.map(|at| (at.total_micros() as u64 * 1000).max(now_ns + 1000));
        arrival.into_iter().chain(own).min().unwrap_or(u64::MAX)
    }
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1000) as i64)
}

/// Returns the bits a second of `bytes` sent from one to the other, from the first on.
pub fn goodput(way: Way, window_bytes: usize, bytes: usize) -> u64 {
    let (mut near, mut far) = (Host::new(1, 65_536), Host::new(2, window_bytes));
    far.socket().listen(80).unwrap();
    let Host { interface, sockets, socket, .. } = &mut near;
    let local = sockets.get_mut::<Socket>(*socket);
    local.connect(interface.context(), (IpAddress::v4(10, 0, 0, 2), 80), 50_000).unwrap();
    let (mut now_ns, mut written, mut read, mut began_ns) = (0, 0, 0, None);
    let data = vec![0; 1 << 16];
    while read < bytes {
        for (from, to) in [(0, 1), (1, 0)] {
            let hosts = [&mut near, &mut far];
            let mut arrived = Vec::new();
            while hosts[from].under_way.front().is_some_and(|&(at_ns, _)| at_ns <= now_ns) {
                arrived.extend(hosts[from].under_way.pop_front().map(|(_, packet)| packet));
            }
            hosts[to].end.inbox.extend(arrived);
        }
        while near.socket().can_send() && written < bytes {
            let part = data.len().min(bytes - written);
            written += near.socket().send_slice(&data[..part]).unwrap();
            began_ns = began_ns.or(Some(now_ns));
        }
        far.poll(now_ns, way);
        while far.socket().can_recv() {
            read += far.socket().recv(|all| (all.len(), all.len())).unwrap();
        }
        far.poll(now_ns, way);
        near.poll(now_ns, way);
        now_ns = near.due_ns(now_ns).min(far.due_ns(now_ns)).max(now_ns + 1);
        assert!(now_ns < 3_600_000_000_000, "stuck at {read} of {bytes}");
    }
    (bytes as u128 * 8_000_000_000 / u128::from(now_ns - began_ns.unwrap_or(0))) as u64
}
