//! One sender on the null device, with a poller's thread beside it: by a queue alone, or by a path, which watches its device and keeps
//! events. For counting instructions.
//!
//! `watched PACKETS BURST queue|path`. `bench/watchdog.sh` runs it under callgrind.

use std::sync::Arc;
use std::time::Duration;
use wharf::Owners;
use wharf::queue::{HostClock, TxQueue};
use wharf::{Direction, PagePool, Port, Sender, Wait};
use wharf_devices::host::{HostPark, PollerThread};
use wharf_devices::null::Null;

fn send(mut sender: Sender, packets: usize, size: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut burst = sender.burst(size);
    for _ in 0..packets / size.max(1) {
        sender.fill(&mut burst, size, 64, Wait::Never)?;
        burst.iter_mut().for_each(|packet| packet.copy_from_slice(&[1; 64]));
        _ = sender.send(&mut burst, Wait::Forever)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [packets, burst, way] = &arguments[..] else {
        return Err("usage: watched PACKETS BURST queue|path".into());
    };
    let (packets, size): (usize, usize) = (packets.parse()?, burst.parse()?);
    let pool = PagePool::builder().frames(4096).build()?;
    if way == "path" {
        let path = Port::builder("null", Direction::Send).pool(&pool).owners(Owners::Senders).build()?;
        // A program that listens: the watch is over the line, too.
        let _events = path.events()?;
        send(path.sender("watched")?, packets, size)?;
        println!("{} out", path.close(Duration::from_secs(1)).out());
    } else {
        let queue =
            TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark))
                .build()?;
        let poller = PollerThread::builder().queue(&queue).start()?;
        send(queue.sender("alone")?, packets, size)?;
        drop(poller);
        println!("{} out", queue.shutdown(Duration::MAX).out());
    }
    Ok(())
}
