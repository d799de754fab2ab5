//! One sender in a loop of its own. While the queue is full, the loop waits for a file descriptor, which could stand
//! in epoll(7) beside its sockets. Run it with `cargo run --release --example poll_loop`.

use std::sync::Arc;
use std::time::Duration;
use wharf::device::{Batch, Device, Duplex, Registry, RxDevice};
use wharf::queue::{HostClock, HostPark, PollerThread, TxQueue, WakeFd};
use wharf::{Direction, PagePool, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let (arrived, waits) = run(20_000)?;
    println!("{arrived} packets arrived, the loop waited {waits} times");
    Ok(())
}

/// Sends `packets` packets over a slow wire. Returns the number that arrived, and the number of waits.
fn run(packets: usize) -> Result<(u64, u64), Error> {
    let pool = PagePool::builder().frames(512).build()?;
    let wire = Registry::default().open("wire:rate=1gbit", Direction::Send)?;
    let far_end = wire.far_end.ok_or("a wire has two ends")?;
    let receiving = std::thread::spawn(move || swallow(far_end));
    let queue =
        TxQueue::builder(&pool, wire.device.into_tx()?, Arc::new(HostClock), Arc::new(HostPark)).build()?;
    let poller = PollerThread::start(&queue)?;
    let mut sender = queue.sender("loop")?;
    let wake_fd = WakeFd::new()?;

    let (mut burst, mut left) = (sender.burst(32), packets);
    while left > 0 || !burst.is_empty() {
        if burst.is_empty() {
            let filled = sender.fill(&mut burst, left.min(32), 1000, Wait::Never)?;
            if filled == 0 {
                let mut watch = sender.watch_memory(wake_fd.clone());
                while sender.look(&mut watch).transpose()?.is_none() {
                    doze(&wake_fd)?;
                }
                continue;
            }
            left -= filled;
            burst.iter_mut().for_each(|packet| packet.fill(0));
        }
        if sender.send(&mut burst, Wait::Never)?.accepted == 0 {
            let mut watch = sender.watch(0, burst.len(), wake_fd.clone());
            while sender.look(&mut watch).transpose()?.is_none() {
                doze(&wake_fd)?;
            }
        }
    }

    let waits = sender.counters().waits.get();
    drop((burst, sender));
    queue.drain(Duration::MAX);
    drop(poller);
    let audit = queue.shutdown(Duration::MAX);
    let arrived = receiving.join().map_err(|_| "the receiver panicked")??;
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok((arrived, waits)) }
}

/// Waits until the descriptor is readable; a real loop gives it (`as_fd`) to epoll with all the others.
fn doze(wake_fd: &WakeFd) -> std::io::Result<()> {
    wake_fd.wait()?;
    wake_fd.clear();
    Ok(())
}

/// Receives until the wire ends. Returns the number of packets.
fn swallow(mut far_end: Box<dyn Duplex>) -> Result<u64, Error> {
    let pool = PagePool::builder().frames(1024).build()?;
    far_end.attach(pool.region().clone())?;
    let (mut cache, mut arrived, mut packets) = (pool.cache("far end")?, Batch::new(64), 0);
    while !far_end.ended() {
        packets += far_end.receive(&mut cache, &mut arrived, 64)? as u64;
        cache.give(&mut arrived)?;
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_packet_leaves_though_the_loop_waits() {
        let (arrived, waits) = super::run(4_000).unwrap();
        assert_eq!(arrived, 4_000);
        assert!(waits > 0);
    }
}
