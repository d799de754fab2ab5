//! Eight tasks on one thread of a tokio runtime send over one queue of a slow wire. While the queue is full, a task
//! waits and the others go on. Run it with `cargo run --release --example tasks`.

use std::sync::Arc;
use wharf::{
    Batch, Device, Direction, Duplex, Fifo, FifoLimit, HostClock, HostPark, PagePool, PollerThread,
    QueueError, RxDevice, Sender, TxQueue, open,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TASKS: usize = 8;

fn main() -> Result<(), Error> {
    let (queue, arrived) = run(20_000)?;
    println!("sent   {} packets, of which {arrived} arrived", queue.counters().sent.get());
    for (task, sender) in queue.senders().iter().enumerate() {
        println!("task {task} waited {} times", sender.waits.get());
    }
    Ok(())
}

/// Sends `packets` packets in all. Returns the queue, shut down, and the number that arrived.
fn run(packets: usize) -> Result<(TxQueue, u64), Error> {
    let pool = PagePool::builder().clock(Arc::new(HostClock)).build()?;
    let wire = open("wire:rate=1gbit", Direction::Send)?;
    let far_end = wire.far_end.ok_or("a wire has two ends")?;
    let receiving = std::thread::spawn(move || swallow(far_end));
    let fifo = Box::new(Fifo::new(FifoLimit::Packets(100)));
    let queue = TxQueue::builder_of(&pool, wire.device, Arc::new(HostClock), Arc::new(HostPark))?
        .qdisc(fifo)
        .build()?;
    // The poller wakes the tasks. Without one they would ask again and again.
    let poller = PollerThread::start(&queue)?;

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let sender = queue.sender(&format!("task {task}"))?;
            tasks.spawn(send(sender, packets / TASKS));
        }
        while let Some(sent) = tasks.join_next().await {
            sent??;
        }
        Ok::<(), Error>(())
    })?;

    queue.drain(u64::MAX);
    drop(poller);
    let audit = queue.shutdown(u64::MAX);
    let arrived = receiving.join().map_err(|_| "the receiver panicked")??;
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok((queue, arrived)) }
}

async fn send(mut sender: Sender, packets: usize) -> Result<(), QueueError> {
    let mut burst = sender.burst(32);
    let mut left = packets;
    while left > 0 {
        left -= sender.fill_async(&mut burst, left.min(32), 1000).await?;
        burst.iter_mut().for_each(|packet| packet.fill(0));
        sender.send_async(&mut burst).await?;
    }
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
    fn every_packet_leaves_though_all_tasks_wait() {
        let (queue, arrived) = super::run(4_000).unwrap();
        assert_eq!((queue.counters().sent.get(), arrived), (4_000, 4_000));
        assert!(queue.senders().iter().any(|sender| sender.waits.get() > 0));
    }
}
