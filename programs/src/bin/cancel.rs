//! Waits of tasks that lose a race against a timer: no packet is lost or doubled by a future that is dropped.
//! `cancel PACKETS`.

use std::time::Duration;
use wharf::{Direction, PagePool, Port};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let packets: u64 = std::env::args().nth(1).ok_or("usage: cancel PACKETS")?.parse()?;
    // Little memory and a short ring: most calls wait.
    let pool = PagePool::builder().frames(512).build()?;
    let port = Port::builder("wire:ring=16", Direction::Send).pool(&pool).build()?;
    let far_end = port.far_end()?;
    let (mut sender, mut receiver) = (port.sender("task")?, far_end.served_receiver()?);
    let sending = tokio::spawn(async move {
        let (mut burst, mut next, mut dropped) = (sender.burst(8), 0, 0u64);
        while next < packets || !burst.is_empty() {
            if next < packets && burst.len() < 8 {
                let Ok(mut packet) = sender.packet(64, Duration::ZERO) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                packet.bytes_mut()[..8].copy_from_slice(&u64::to_be_bytes(next));
                _ = burst.push(packet);
                next += 1;
                continue;
            }
            tokio::select! {
                sent = sender.send_async(&mut burst) => drop(sent?),
                () = tokio::task::yield_now() => dropped += 1,
            }
        }
        Ok::<_, Error>(dropped)
    });
    let (mut received, mut expected, mut dropped) = (far_end.burst(8), 0, 0);
    while expected < packets {
        tokio::select! {
            count = receiver.recv_async(&mut received) => drop(count?),
            () = tokio::time::sleep(Duration::from_micros(20)) => dropped += 1,
        }
        while let Some(packet) = received.pop() {
            let number = u64::from_be_bytes(packet.bytes()[..8].try_into()?);
            assert!(number >= expected - expected.min(8), "{number} after {expected}");
            expected += 1;
        }
    }
    let sends = sending.await??;
    println!("{expected} packets, each once; {sends} sends and {dropped} receptions dropped meanwhile");
    drop(receiver);
    if port.close_async(Duration::from_secs(1)).await.out() == 0 {
        Ok(())
    } else {
        Err("memory is missing".into())
    }
}
