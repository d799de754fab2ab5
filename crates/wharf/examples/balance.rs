//! A load balancer for UDP: datagrams for one virtual address are spread over back ends by their flow, both
//! ways. `balance SERVICE FRONT BACK BACK_END...`, as root; Enter ends it: `balance 192.0.2.1:53 packet:eth0
//! packet:eth1 10.0.0.2=02:00:00:00:00:02 10.0.0.3=02:00:00:00:00:03`
//!
//! - FRONT leads to the clients by one router, which sends the virtual address here; BACK to the back ends,
//!   whose way to the clients is here. No interface has the address: the kernel leaves these packets alone.
//! - All packets of a flow go to one back end, chosen by their flow hash. No table of flows is kept.
//! - To a back end, the destination becomes the back end's; back, the source becomes the virtual address.
//!   Both checksums are updated for the words that change (RFC 1624), in the memory that the packet came in.
//! - A handler never waits: what finds the other queue full, or is beyond 1536 bytes, is dropped and counted.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wharf::net::{Headers, UDP, checksum, flow_hash, word};
use wharf::{Burst, Direction, PagePool, Port, Sender, Wait, queue::Rest};

struct Balancer {
    service: SocketAddrV4,
    back_ends: Vec<(Ipv4Addr, [u8; 6])>,
    /// The router to the clients: bytes 4 to 12 of the packet that it sent last, of which six are its MAC address.
    router: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, service, front, back, _, ..] = &arguments[..] else {
        return Err("usage: balance SERVICE FRONT BACK BACK_END...".into());
    };
    let back_ends = arguments[4..].iter().map(|text| back_end(text)).collect::<Result<_, _>>()?;
    let balancer = Arc::new(Balancer { service: service.parse()?, back_ends, router: AtomicU64::new(0) });
    let pool = PagePool::builder().frames(16384).build()?;
    let open = |spec: &String| Port::builder(spec, Direction::Both).pool(&pool).build();
    let (front, back) = (open(front)?, open(back)?);
    front.on_receive(pass(back.sender("to back ends")?, balancer.clone()))?;
    back.on_receive(pass(front.sender("to clients")?, balancer))?;
    eprintln!("listening on {}", front.name());
    std::io::stdin().read_line(&mut String::new())?;
    let _ = (front.close(Duration::from_secs(1)), back.close(Duration::from_secs(1)));
    for queue in [front.queue()?, back.queue()?] {
        println!("{} sent, {} dropped", queue.counters().sent.get(), queue.sender_totals().drops.get());
    }
    println!("{}", pool.audit());
    Ok(())
}

fn back_end(text: &str) -> Result<(Ipv4Addr, [u8; 6]), Box<dyn Error>> {
    let (address, mac) = text.split_once('=').ok_or("want ADDRESS=MAC")?;
    let mac = mac.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<_>, _>>()?;
    Ok((address.parse()?, mac.try_into().map_err(|_| "want six bytes")?))
}

/// Makes the handler that sends the packets which the balancer takes, and frees the others.
fn pass(mut sender: Sender, balancer: Arc<Balancer>) -> impl FnMut(&mut Burst) -> Rest + Send {
    move |burst: &mut Burst| {
        for _ in 0..burst.len() {
            let Some(mut packet) = burst.pop() else { break };
            if balancer.rewrite(packet.bytes_mut()).is_some() {
                // It left at the front, so there is room for it at the back.
                drop(burst.push(packet));
            }
        }
        let _ = sender.send_or_drop(burst, Wait::Never); // An error says that the path is being closed.
        Rest::Free
    }
}

impl Balancer {
    /// Rewrites a packet for the service, or of a back end. Returns `None` for others.
    fn rewrite(&self, packet: &mut [u8]) -> Option<()> {
        let headers = Headers::parse(packet).ok().filter(|at| at.protocol == UDP && at.is_whole())?;
        let ((source, destination), ports) = (headers.addresses(packet)?, headers.ports(packet)?);
        let (at, address, mac) = if SocketAddr::new(destination, ports.1) == self.service.into() {
            self.router.store(u64::from_be_bytes(packet[4..12].try_into().ok()?), Relaxed);
            let (address, mac) = self.back_ends[flow_hash(packet) as usize % self.back_ends.len()];
            (headers.ip_at + 16, address, mac)
        } else {
            let is_back_end = self.back_ends.iter().any(|(address, _)| source == *address);
            (is_back_end && ports.0 == self.service.port()).then_some(())?;
            let router = self.router.load(Relaxed).to_be_bytes();
            (headers.ip_at + 12, *self.service.ip(), router[2..].try_into().ok()?)
        };
        packet.copy_within(..6, 6);
        packet[..6].copy_from_slice(&mac);
        // A UDP checksum of 0 stands for none. 0 and 0xffff are the same number in ones' complement.
        let has_sum = word(packet, headers.transport_at + 6)? != 0;
        let sums = [Some(headers.ip_at + 10), has_sum.then_some(headers.transport_at + 6)];
        for (at, new) in [at, at + 2].into_iter().zip(address.octets().chunks(2)) {
            let (old, new) = (word(packet, at)?, word(new, 0)?);
            packet[at..at + 2].copy_from_slice(&new.to_be_bytes());
            for at in sums.into_iter().flatten() {
                let sum = checksum::update(word(packet, at)?, old, new);
                packet[at..at + 2].copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
            }
        }
        Some(())
    }
}
