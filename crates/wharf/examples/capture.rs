//! A capture to disk: what arrives at an interface goes into a file that tcpdump and Wireshark read.
//! `capture FROM FILE SECONDS`, as root: `capture packet:eth0 eth0.pcap 10`; without privileges `udp:127.0.0.1:9000`.
//!
//! - The file is a device as well (`pcap:`), so that a packet is written from the memory that it arrived in. Both paths
//!   have one pool.
//! - One thread receives and writes: `receiver` polls on its caller's thread, and `Owners::Senders` has the caller of
//!   `send` run the queue. No other thread exists.
//! - Memory is bounded by the pool and by the kernel's ring. While the disk is slow nothing is received, the ring fills,
//!   and the kernel drops packets and counts them: arrived = written + failed + lost, and the program prints each.
//! - `packet` and `udp` leave packets to the host, too; `xdp` takes them away from it.

use std::time::{Duration, Instant};
use wharf::{Direction, Owners, PagePool, Port, PortBuilder, Receiver, RecvError, Sender, Wait};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, from, file, seconds] = &arguments[..] else {
        return Err("usage: capture FROM FILE SECONDS".into());
    };
    let pool = PagePool::builder().frames(8192).build()?;
    // Packets of any length, super-packets too.
    let settings = |path: PortBuilder| path.pool(&pool).owners(Owners::Senders).takes_chains(true).build();
    let open = |spec: &str, direction| settings(Port::builder(spec, direction));
    let (from, file) = (open(from, Direction::Receive)?, open(&format!("pcap:{file}"), Direction::Send)?);
    let (mut receiver, sender) = (from.receiver()?, file.sender("capture")?);
    eprintln!("listening on {}", from.name());

    let until = Instant::now() + Duration::try_from_secs_f64(seconds.parse()?)?;
    capture(&mut receiver, sender, until)?;
    let mut lost = 0;
    receiver.queue().drops(&mut |reason, count| {
        lost += count;
        if count > 0 {
            eprintln!("{count} packets lost before they could be received: {reason}");
        }
    });
    let audit = file.close(Duration::from_secs(5));
    let counters = file.queue()?.counters();
    let (sent, failed) = (counters.sent.get(), counters.failed.get());
    println!("{sent} packets written, {failed} failed, {lost} lost; {audit}");
    counters.last_error().map_or(Ok(()), |error| Err(error.into()))
}

/// Writes what arrives until `until`, or until nothing more can come.
fn capture(receiver: &mut Receiver, mut sender: Sender, until: Instant) -> Result<(), Error> {
    let mut burst = sender.burst(256);
    loop {
        match receiver.recv(&mut burst, until) {
            Ok(0) | Err(RecvError::Closed) => return Ok(()),
            Ok(_) => _ = sender.send(&mut burst, Wait::Forever)?,
            Err(error) => return Err(error.into()),
        }
    }
}
