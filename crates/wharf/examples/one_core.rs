//! One core, one sender, the null device: a fixed number of packets, for counting instructions.
//!
//! `one_core PACKETS BURST on|off`. `bench/off-costs-nothing.sh` runs it under callgrind.

use std::sync::Arc;
use std::time::Duration;
use wharf::queue::{HostClock, TxQueue};
use wharf::{PagePool, Wait};
use wharf_core::engine::Batching;
use wharf_devices::host::HostPark;
use wharf_devices::null::Null;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [packets, burst, switch] = &arguments[..] else {
        return Err("usage: one_core PACKETS BURST on|off".into());
    };
    let (packets, size): (usize, usize) = (packets.parse()?, burst.parse()?);
    let batching = if switch == "off" { Batching::Off } else { Batching::On };
    let pool = PagePool::builder().frames(4096).build()?;
    let device = Box::new(Null::default());
    let builder = TxQueue::builder(&pool, device, Arc::new(HostClock), Arc::new(HostPark));
    let queue = builder.batching(batching).build()?;
    let mut sender = queue.sender("one core")?;
    let mut burst = sender.burst(size);
    for _ in 0..packets / size.max(1) {
        sender.fill(&mut burst, size, 64, Wait::Never)?;
        burst.iter_mut().for_each(|packet| packet.copy_from_slice(&[1; 64]));
        _ = sender.send(&mut burst, Wait::Forever)?;
    }
    drop(sender);
    println!("{} packets, {} out", queue.counters().packets.get(), queue.shutdown(Duration::MAX).out());
    Ok(())
}
