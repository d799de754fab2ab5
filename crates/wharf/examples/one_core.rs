//! One core, one sender, the null device: a fixed number of packets, for counting instructions.
//!
//! `one_core PACKETS BURST on|off`. `bench/off-costs-nothing.sh` runs it under callgrind.

use std::time::Duration;
use wharf::{Direction, Owners, Port, Wait};
use wharf_core::engine::Batching;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [packets, burst, switch] = &arguments[..] else {
        return Err("usage: one_core PACKETS BURST on|off".into());
    };
    let (packets, size): (usize, usize) = (packets.parse()?, burst.parse()?);
    let batching = if switch == "off" { Batching::Off } else { Batching::On };
    let port = Port::builder("null", Direction::Send).owners(Owners::Senders).batching(batching).build()?;
    let mut sender = port.sender("one core")?;
    let mut burst = sender.burst(size);
    for _ in 0..packets / size.max(1) {
        sender.fill(&mut burst, size, 64, Wait::Never)?;
        burst.iter_mut().for_each(|packet| packet.copy_from_slice(&[1; 64]));
        _ = sender.send(&mut burst, Wait::Forever)?;
    }
    drop(sender);
    let out = port.close(Duration::MAX).out();
    println!("{} packets, {out} out", port.queue()?.counters().packets.get());
    Ok(())
}
