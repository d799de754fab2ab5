//! Agave's own transmit loop over AF_XDP, with producers that hand over payloads for 200 destinations as
//! crates/wharf/examples/retransmit does. Usage: agave_xdp_loop PRODUCERS SECONDS INTERFACE
use agave_xdp::device::{NetworkDevice, QueueId};
use agave_xdp::route::Router;
use agave_xdp::transmitter::BytesTxPacket;
use agave_xdp::tx_loop::{Receiver, TryRecvError, TxLoopBuilder, TxLoopConfigBuilder};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PAYLOAD_BYTES: usize = 1232;
const DESTINATIONS: u8 = 200;
/// Payloads that wait for the loop.
const WAITING: usize = 64;

/// A channel whose producers wait for room. Agave's own one refuses what finds none.
struct Payloads(crossbeam_channel::Receiver<BytesTxPacket>);

impl Receiver<BytesTxPacket> for Payloads {
    fn try_recv(&self) -> Result<BytesTxPacket, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            crossbeam_channel::TryRecvError::Empty => TryRecvError::Empty,
            crossbeam_channel::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, producers, seconds, interface] = &arguments[..] else {
        return Err("usage: agave_xdp_loop PRODUCERS SECONDS INTERFACE".into());
    };
    let (producers, time): (u8, f64) = (producers.parse()?, seconds.parse()?);
    let device = NetworkDevice::new(interface.as_str())?;
    let config = TxLoopConfigBuilder::new().build_with_src_device(&device)?;
    let tx_loop = TxLoopBuilder::new(0, QueueId(0), config, &device)?.build()?;
    let router = Router::new()?;
    let (to, from) = crossbeam_channel::bounded::<BytesTxPacket>(WAITING);
    let (began, sent) = (Instant::now(), AtomicU64::new(0));
    let until = began + Duration::from_secs_f64(time);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            tx_loop.run(Payloads(from), drop, move |ip: &IpAddr| match *ip {
                IpAddr::V4(ip) => router.route_v4(ip).ok(),
                IpAddr::V6(_) => None,
            })
        });
        for number in 0..producers {
            let (to, sent) = (to.clone(), &sent);
            scope.spawn(move || produce(number, &to, until, sent));
        }
        drop(to);
    });
    let (sent, seconds) = (sent.into_inner(), began.elapsed().as_secs_f64());
    println!("{sent} packets, {:.0} a second", sent as f64 / seconds);
    Ok(())
}

fn produce(number: u8, to: &crossbeam_channel::Sender<BytesTxPacket>, until: Instant, sent: &AtomicU64) {
    let source = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 8001);
    let destination = |at| SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, at), 8001));
    let destinations: Vec<SocketAddr> = (0..DESTINATIONS).map(destination).collect();
    while Instant::now() < until {
        let payload = Bytes::from(vec![number; PAYLOAD_BYTES]);
        if to.send(BytesTxPacket::new(source, destinations.clone(), None, payload)).is_err() {
            return;
        }
        sent.fetch_add(u64::from(DESTINATIONS), Relaxed);
    }
}
