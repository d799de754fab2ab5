//! Three threads send 300 000 packets each over one queue; a receiver checks them. Run it with
//! `cargo run --release --example quickstart`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use wharf::device::open;
use wharf::queue::{HostClock, HostPark, Mode, PollerThread, TxQueue};
use wharf::{Direction, PagePool};
use wharf_tools::traffic::{Drive, Findings, GeneratorSpec, Receiver, StampCheck};

type Error = Box<dyn std::error::Error + Send + Sync>;

const SENDERS: u16 = 3;

fn main() -> Result<(), Error> {
    let (queue, received) = send(900_000)?;
    let counters = queue.counters();
    println!(
        "sent      {} packets, {:.1} per doorbell",
        counters.sent.get(),
        counters.packets_per_doorbell()
    );
    println!("received  {} packets, {} of them wrong", received.packets, received.errors);
    println!("limit     {} bytes may be with the device", counters.bql_limit_bytes.get());
    Ok(())
}

/// Sends `packets` packets. Returns the queue, shut down, and the receiver's findings.
fn send(packets: u64) -> Result<(TxQueue, Findings), Error> {
    let pool = PagePool::builder().build()?;
    let wire = open("wire", Direction::Send)?;
    let queue = TxQueue::builder_of(&pool, wire.device, Arc::new(HostClock), Arc::new(HostPark))?.build()?;
    let poller = PollerThread::start(&queue)?;

    // Numbered UDP packets of 60 bytes, a part for each sender; and the check that recognises them.
    let generators =
        GeneratorSpec { senders: SENDERS, flows: 30, ..GeneratorSpec::default() }.generators()?;
    let check = Box::new(StampCheck::new(generators.clone()));
    let far_end = wire.far_end.ok_or("a wire has two ends")?;
    let receiver =
        Receiver::new(far_end, &PagePool::builder().frames(1024).build()?, Mode::default(), check)?;
    let receiving = thread::spawn(move || receiver.run(&AtomicBool::new(false)));

    let stop = AtomicBool::new(false);
    thread::scope(|scope| -> Result<(), Error> {
        let mut threads = Vec::new();
        for generator in generators {
            let mut sender = queue.sender(&format!("sender {}", generator.sender()))?;
            let mut part = generator.ending_after(packets / u64::from(SENDERS));
            let drive = Drive::top_speed(64, &stop);
            threads.push(scope.spawn(move || drive.run(&mut sender, &mut part)));
        }
        threads
            .into_iter()
            .try_for_each(|thread| Ok(thread.join().map_err(|_| "a sender panicked")?.map(drop)?))
    })?;

    queue.drain(Duration::MAX);
    drop(poller);
    let audit = queue.shutdown(Duration::MAX); // closes the device, and so the wire: the receiver ends
    let received = receiving.join().map_err(|_| "the receiver panicked")??;
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok((queue, received)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_packet_arrives_as_it_was_sent() {
        let (queue, received) = super::send(3_000).unwrap();
        assert_eq!((queue.counters().sent.get(), received.packets, received.errors), (3_000, 3_000, 0));
    }
}
