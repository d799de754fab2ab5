//! A TCP stack in user space: smoltcp over any device of Wharf, here as the client of an echo server.
//! `smoltcp_device SPEC OWN_ADDRESS/BITS SERVER:PORT BYTES`: `smoltcp_device xdp:eth0 10.0.0.9/24 10.0.0.1:7 1000000`.
//!
//! - `phy::Device` is three calls: receive a packet, offer one to be sent, say how long packets may be.
//! - All of it happens on one thread: the receiver polls the device in its own calls, and sleeps until a packet comes.
//! - A packet to be sent has its memory before smoltcp is asked to fill it. What does not fit is dropped: TCP repeats it.
//! - `tap:NAME,offload=off`: the kernel then cuts segments and finishes checksums.

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::net::SocketAddrV4;
use std::time::Duration;
use wharf::{Burst, Direction, Packet, Port, Receiver, Sender, Wait};

type Error = Box<dyn std::error::Error>;

/// Bytes of a frame: Ethernet header and MTU.
const FRAME_BYTES: usize = 1514;
const TIME: Duration = Duration::from_secs(20);

/// A device of Wharf as smoltcp wants it.
struct Nic {
    receiver: Receiver,
    arrived: Burst,
    sender: Sender,
}

struct Arrived(Packet);
struct Leaving<'a>(Packet, &'a mut Sender);

impl Nic {
    fn open(spec: &str) -> Result<Self, Error> {
        let path = Port::open(spec, Direction::Both)?;
        Ok(Self { receiver: path.receiver()?, arrived: path.burst(64), sender: path.sender("smoltcp")? })
    }

    /// Waits up to `time` for a packet.
    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        Ok(self.receiver.recv(&mut self.arrived, time).map(drop)?)
    }
}

impl phy::Device for Nic {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving<'_>)> {
        if self.arrived.is_empty() {
            self.receiver.recv(&mut self.arrived, Wait::Never).ok()?;
        }
        let leaving = self.sender.packet(FRAME_BYTES as u32, Wait::Never).ok()?;
        Some((Arrived(self.arrived.pop()?), Leaving(leaving, &mut self.sender)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(self.sender.packet(FRAME_BYTES as u32, Wait::Never).ok()?, &mut self.sender))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, FRAME_BYTES);
        capabilities
    }
}

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0.bytes())
    }
}

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, len: usize, write: F) -> R {
        let written = write(&mut self.0.bytes_mut()[..len]);
        if self.0.set_len(len as u32).is_ok() {
            // It fails only when the queue is closed.
            drop(self.1.send_or_drop(&mut self.0.into(), Wait::Never));
        }
        written
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, own, server, bytes] = &arguments[..] else {
        return Err("usage: smoltcp_device SPEC OWN_ADDRESS/BITS SERVER:PORT BYTES".into());
    };
    let own = own.parse().map_err(|()| "no address with its bits")?;
    echo(Nic::open(spec)?, own, server.parse()?, bytes.parse()?)?;
    println!("{bytes} bytes there and back by {spec}");
    Ok(())
}

/// Sends `bytes` bytes to the echo server and compares what comes back.
fn echo(mut nic: Nic, own: IpCidr, server: SocketAddrV4, bytes: usize) -> Result<(), Error> {
    let address = EthernetAddress([2, 0, 0, 0, 0, 9]);
    let mut interface = Interface::new(Config::new(address.into()), &mut nic, Instant::now());
    interface.update_ip_addrs(|addresses| addresses.extend([own]));
    let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
    let mut sockets = SocketSet::new(vec![]);
    let handle = sockets.add(tcp::Socket::new(buffer(), buffer()));
    sockets.get_mut::<tcp::Socket>(handle).connect(interface.context(), server, 49152)?;
    let (began, mut sent, mut received) = (std::time::Instant::now(), 0, 0);
    while received < bytes {
        interface.poll(Instant::now(), &mut nic, &mut sockets);
        let socket = sockets.get_mut::<tcp::Socket>(handle);
        let before = (sent, received);
        if socket.can_send() && sent < bytes {
            sent += socket.send(|buffer| {
                let count = buffer.len().min(bytes - sent);
                buffer[..count].iter_mut().zip(sent..).for_each(|(to, at)| *to = content(at));
                (count, count)
            })?;
        }
        if socket.can_recv() {
            let (count, is_same) = socket.recv(|buffer| {
                (
                    buffer.len(),
                    (buffer.len(), buffer.iter().zip(received..).all(|(&byte, at)| byte == content(at))),
                )
            })?;
            received += count;
            if !is_same {
                return Err(format!("other bytes came back before {received}").into());
            }
        }
        if began.elapsed() > TIME || (!socket.is_active() && received < bytes) {
            return Err(format!("{sent} bytes sent, {received} came back, then {}", socket.state()).into());
        }
        if before == (sent, received) {
            let delay = interface.poll_delay(Instant::now(), &sockets).map_or(TIME, Duration::from);
            nic.wait(delay.min(TIME))?;
        }
    }
    Ok(())
}

fn content(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}
