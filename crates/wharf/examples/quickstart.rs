//! Three threads send 300 000 packets each over one queue; a receiver checks them. Run it with
//! `cargo run --release --example quickstart`.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use wharf::metrics::Snapshot;
use wharf::queue::Mode;
use wharf::{Direction, Port};
use wharf_tools::traffic::{Drive, Findings, GeneratorSpec, Receiver, StampCheck, receiving};

type Error = Box<dyn std::error::Error + Send + Sync>;

const SENDERS: u16 = 3;

fn main() -> Result<(), Error> {
    let (sent, received) = send(900_000)?;
    let packets_per_doorbell = sent.sent as f64 / sent.doorbells.max(1) as f64;
    println!("sent      {} packets, {packets_per_doorbell:.1} per doorbell", sent.sent);
    println!("received  {} packets, {} of them wrong", received.packets, received.errors);
    println!("limit     {} bytes may be with the device", sent.limit_bytes);
    Ok(())
}

/// Sends `packets` packets. Returns what the port has counted, and the receiver's findings.
fn send(packets: u64) -> Result<(Snapshot, Findings), Error> {
    let port = Port::open("wire", Direction::Send)?;

    // Numbered UDP packets of 60 bytes, a part for each sender; and the check that recognises them.
    let generators =
        GeneratorSpec { senders: SENDERS, flows: 30, ..GeneratorSpec::default() }.generators()?;
    let check = Box::new(StampCheck::new(generators.clone()));
    let far_end = receiving(port.far_end_builder(Direction::Receive)?, Mode::default()).build()?;
    let receiver = Receiver::new(&far_end, Mode::default(), check)?;
    let received = thread::spawn(move || receiver.run(&AtomicBool::new(false)));

    let stop = AtomicBool::new(false);
    thread::scope(|scope| -> Result<(), Error> {
        let mut threads = Vec::new();
        for generator in generators {
            let mut sender = port.sender(&format!("sender {}", generator.sender()))?;
            let mut part = generator.ending_after(packets / u64::from(SENDERS));
            let drive = Drive::top_speed(64, &stop);
            threads.push(scope.spawn(move || drive.run(&mut sender, &mut part)));
        }
        threads
            .into_iter()
            .try_for_each(|thread| Ok(thread.join().map_err(|_| "a sender panicked")?.map(drop)?))
    })?;

    port.drain(Duration::MAX);
    let audit = port.close(Duration::MAX); // closes the device, and so the wire: the receiver ends
    let received = received.join().map_err(|_| "the receiver panicked")??;
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok((port.snapshot(), received)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_packet_arrives_as_it_was_sent() {
        let (sent, received) = super::send(3_000).unwrap();
        assert_eq!((sent.sent, received.packets, received.errors), (3_000, 3_000, 0));
    }
}
