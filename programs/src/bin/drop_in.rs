//! A sender that any thread has a clone of, as a validator's broadcast wants it: `try_send(&self)` waits for nothing. What
//! finds all senders at work, no memory or no room is dropped, and counted.
//! `drop_in SPEC SOURCE_MAC SOURCE:PORT DESTINATION_MAC DESTINATION:PORT THREADS PACKETS`. It goes on while the interface
//! is deleted and made again, and says when it is back; at the end its counts add up.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wharf::net::UdpHeaders;
use wharf::{Burst, Direction, Event, Port, Sender};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A handle for any thread: the threads share a few senders.
#[derive(Clone)]
struct Transmitter(Arc<[Mutex<(Sender, Burst)>]>);

impl Transmitter {
    fn new(port: &Port, senders: usize) -> Result<Self, Error> {
        let sender = |_| Ok(Mutex::new((port.sender("transmitter")?, port.burst(256))));
        Ok(Self((0..senders).map(sender).collect::<Result<_, Error>>()?))
    }

    /// Sends `payload` behind each of `headers`. Returns the packets handed over; the others are dropped.
    fn try_send(&self, headers: &[UdpHeaders], payload: &[u8]) -> Result<usize, Error> {
        let Some(mut free) = self.0.iter().find_map(|one| one.try_lock().ok()) else { return Ok(0) };
        let ((sender, burst), mut accepted) = (&mut *free, 0);
        for headers in headers.chunks(256) {
            sender.fill(burst, headers.len(), payload.len() as u32, wharf::Wait::Never)?;
            for (mut packet, headers) in burst.packets_mut().zip(headers) {
                packet.bytes_mut().copy_from_slice(payload);
                headers.put(&mut packet)?;
            }
            accepted += sender.send_or_drop(burst, wharf::Wait::Never)?.accepted;
        }
        Ok(accepted)
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, source_mac, source, destination_mac, destination, threads, packets] = &arguments[..] else {
        return Err(
            "usage: drop_in SPEC SOURCE_MAC SOURCE:PORT DESTINATION_MAC DESTINATION:PORT THREADS PACKETS"
                .into(),
        );
    };
    let (source, destination): (SocketAddr, SocketAddr) = (source.parse()?, destination.parse()?);
    let headers = UdpHeaders::between(source, destination).ok_or("two versions of IP")?;
    let headers = headers.macs(mac(source_mac)?, mac(destination_mac)?);
    let port = Port::open(spec, Direction::Send)?;
    let watcher = thread::spawn({
        let events = port.events()?;
        move || {
            for event in events {
                match event {
                    Event::Gone { .. } => println!("gone"),
                    Event::Reopened { after } => println!("back after {} ms", after.as_millis()),
                    _ => {}
                }
            }
        }
    });
    let (threads, packets) = (threads.parse::<usize>()?, packets.parse::<usize>()?);
    let transmitter = Transmitter::new(&port, threads.div_ceil(2))?;
    let sending = (0..threads).map(|number| {
        let transmitter = transmitter.clone();
        thread::spawn(move || -> Result<usize, Error> {
            let mut handed = 0;
            for sequence in 0..packets as u64 {
                let payload = [number.to_be_bytes(), sequence.to_be_bytes()].concat();
                handed += transmitter.try_send(&[headers], &payload)?;
                thread::sleep(Duration::from_micros(50));
            }
            Ok(handed)
        })
    });
    let sending: Vec<_> = sending.collect();
    let mut handed = 0;
    for thread in sending {
        handed += thread.join().map_err(|_| "a thread panicked")??;
    }
    drop(transmitter);
    let dropped = threads * packets - handed;
    let end = Instant::now() + Duration::from_secs(10);
    while port.snapshot().inside > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    port.close(Duration::from_secs(1));
    watcher.join().map_err(|_| "the watcher panicked")?;
    let now = port.snapshot();
    println!(
        "{handed} handed over, {dropped} dropped; {} sent, {} failed, {} returned: {:?}",
        now.sent, now.failed, now.returned, now.drops
    );
    let is_whole =
        now.accepted == handed as u64 && now.accepted == now.sent + now.failed + now.returned + now.inside;
    if is_whole { Ok(()) } else { Err("the counts do not add up".into()) }
}

fn mac(text: &str) -> Result<[u8; 6], Error> {
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<_>, _>>()?;
    Ok(bytes.try_into().map_err(|_| "a MAC address has six bytes")?)
}
