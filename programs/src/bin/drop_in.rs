//! A sender that any thread has a clone of, as a validator's broadcast wants it: `try_send(&self)` never waits.
//! `drop_in SPEC SOURCE_MAC SOURCE:PORT DESTINATION_MAC DESTINATION:PORT THREADS PACKETS`. It goes on while the interface
//! is deleted and made again, and says when it is back; at the end its counts add up.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wharf::net::UdpHeaders;
use wharf::{Burst, Direction, Event, Port, Sender};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A handle for any thread.
#[derive(Clone)]
struct Transmitter(Arc<Mutex<(Sender, Burst)>>);

impl Transmitter {
    fn new(port: &Port) -> Result<Self, Error> {
        Ok(Self(Arc::new(Mutex::new((port.sender("transmitter")?, port.burst(256))))))
    }

    /// Sends `payload` behind each of `headers`, or drops what has no room. Returns the packets handed over.
    fn try_send(&self, headers: &[UdpHeaders], payload: &[u8]) -> Result<usize, Error> {
        let (sender, burst) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for headers in headers {
            let Ok(mut packet) = sender.packet(payload.len() as u32, wharf::Wait::Never) else { break };
            packet.bytes_mut().copy_from_slice(payload);
            headers.put(&mut packet)?;
            _ = burst.push(packet);
        }
        Ok(sender.send_or_drop(burst, Duration::ZERO)?.accepted)
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
    let (transmitter, packets) = (Transmitter::new(&port)?, packets.parse::<usize>()?);
    let sending = (0..threads.parse::<u64>()?).map(|number| {
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
    let end = Instant::now() + Duration::from_secs(10);
    while port.snapshot().inside > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    port.close(Duration::from_secs(1));
    watcher.join().map_err(|_| "the watcher panicked")?;
    let now = port.snapshot();
    println!(
        "{handed} handed over; {} sent, {} failed, {} returned: {:?}",
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
