//! A retransmitter: producers hand over payloads, and each payload leaves in UDP packets to 200 destinations.
//! `retransmit PRODUCERS SECONDS SPEC[@SHARE]...`, as root: `retransmit 8 3 xdp:eth0,queue=0 xdp:eth0,queue=1`, or, on an
//! interface with one queue (a veth), `retransmit 8 3 xdp:eth0@11 packet:eth0,bypass=on@9`: xdp takes less time for a packet.
//!
//! - Each SPEC is a path: a transmit queue of its own, so that as many processors send at once. All share one pool.
//! - Each path has one thread, which sends and runs the queue to its share of the destinations, each in order. A full
//!   path makes its thread wait, too many payloads make producers wait, and no packet is dropped.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{ops::Range, thread};
use wharf::{Direction, PagePool, Port, Sender, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Payload = [u8; 1232];

const DESTINATIONS: usize = 200;
/// The longest wait for memory or for the end.
const TIME: Duration = Duration::from_secs(1);
/// Ethernet, IPv4 and UDP headers for 10.77.0.0, without the IPv4 checksum. UDP goes without a checksum.
const HEADERS: [u8; 42] = [
    2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0x04, 0xec, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0,
    1, 10, 77, 0, 0, 0x1f, 0x41, 0x1f, 0x41, 0x04, 0xd8, 0, 0,
];

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, producers, seconds, specs @ ..] = &arguments[..] else {
        return Err("usage: retransmit PRODUCERS SECONDS SPEC[@SHARE]...".into());
    };
    let began = Instant::now();
    let sent = retransmit(producers.parse()?, Duration::try_from_secs_f64(seconds.parse()?)?, specs)?;
    println!("{sent} packets, {:.0} a second", sent as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the number of packets that have left.
fn retransmit(producers: u8, time: Duration, specs: &[String]) -> Result<u64, Error> {
    let pool = PagePool::builder().build()?;
    let open = |spec: &str| Port::builder(spec, Direction::Send).pool(&pool).build();
    let places = specs.iter().flat_map(|spec| spec.split('@').next());
    let paths = places.map(open).collect::<Result<Vec<_>, _>>()?;
    let share = |spec: &String| spec.split_once('@').map_or(Ok(1), |(_, share)| share.parse::<usize>());
    let shares = specs.iter().map(share).collect::<Result<Vec<_>, _>>()?;
    let (all, mut given) = (shares.iter().sum::<usize>().max(1), 0);
    thread::scope(|scope| -> Result<(), Error> {
        let (mut threads, mut to_all) = (Vec::new(), Vec::new());
        for (path, share) in paths.iter().zip(shares) {
            let ((to, payloads), sender) = (sync_channel(64), path.sender("fan-out")?);
            let [first, end] = [given, given + share].map(|shares| (shares * DESTINATIONS / all) as u8);
            threads.push(scope.spawn(move || fan_out(sender, &payloads, first..end)));
            to_all.push(to);
            given += share;
        }
        for number in 0..producers {
            let to_all = to_all.clone();
            scope.spawn(move || produce(number, &to_all, time));
        }
        drop(to_all);
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    paths.iter().for_each(|path| _ = path.close(TIME));
    match pool.audit() {
        audit if audit.out() > 0 => Err(audit.to_string().into()),
        _ => paths.iter().map(|path| Ok(path.queue()?.counters().sent.get())).sum(),
    }
}

/// Makes payloads for `time`, or until a thread that sends has failed.
fn produce(number: u8, to_all: &[SyncSender<Arc<Payload>>], time: Duration) {
    let began = Instant::now();
    let hand_over = |payload: Arc<Payload>| to_all.iter().all(|to| to.send(payload.clone()).is_ok());
    while began.elapsed() < time && hand_over(Arc::new([number; _])) {}
}

/// Sends each payload to the destinations `part`.
fn fan_out(mut sender: Sender, payloads: &Receiver<Arc<Payload>>, part: Range<u8>) -> Result<(), Error> {
    let mut burst = sender.burst(64);
    for payload in payloads {
        let (mut left, bytes) = (part.clone(), (HEADERS.len() + payload.len()) as u32);
        while !left.is_empty() {
            sender.fill(&mut burst, left.len().min(64), bytes, TIME)?;
            burst.iter_mut().zip(&mut left).for_each(|(packet, at)| write(packet, &payload, at));
            _ = sender.send(&mut burst, Wait::Forever)?;
        }
    }
    Ok(())
}

/// Writes the packet that carries `payload` to destination `at`; 0xde54 is the sum of the words in the IPv4 header of the first.
fn write(packet: &mut [u8], payload: &Payload, at: u8) {
    packet[..HEADERS.len()].copy_from_slice(&HEADERS);
    packet[24..26].copy_from_slice(&(!(0xde54 + u16::from(at))).to_be_bytes());
    packet[33] = at;
    packet[HEADERS.len()..].copy_from_slice(payload);
}

#[cfg(test)]
mod tests;
