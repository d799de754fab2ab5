//! An echo server (RFC 862) of tasks on one thread: each UDP datagram goes back to where it came from.
//! `echo ADDRESS TASKS`: `echo 127.0.0.1:7007 100`, then `nc -u 127.0.0.1 7007`; Enter ends it. No privilege is needed.
//!
//! - One socket does both ways. It is bound to ADDRESS, and each packet goes where its headers say: `dest=frame`.
//! - A packet is answered in the memory that it came in. No byte of it is copied or allocated.
//! - One task receives and hands each packet to the task of its flow, so that a flow keeps its order.
//! - A task whose sender has no room waits, and the others go on. Its packets fill its channel, then the receiving task
//!   waits, then the socket's buffer fills: memory is bounded, and the program drops no packet.
//! - `close` ends the tasks: calls that wait return `Closed`. The audit shows that all memory is back.

use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use wharf::net::{Headers, QueueMap};
use wharf::{Direction, Packet, Port, Receiver, RecvError, SendError, Sender};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Packets of a burst, and those that wait for a task.
const BURST: usize = 32;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, tasks] = &arguments[..] else {
        return Err("usage: echo ADDRESS TASKS".into());
    };
    let spec = format!("udp:{address},dest=frame");
    let path = Port::builder(&spec, Direction::Both).takes_chains(true).build()?; // datagrams of any length
    eprintln!("listening on {}", path.name());
    let closer = path.clone();
    let closing = thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        closer.close(Duration::from_secs(1))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let received = runtime.block_on(serve(&path, tasks.parse()?))?;
    closing.join().map_err(|_| "no end")?;
    let (sent, audit) = (path.queue()?.counters().sent.get(), path.pool().audit());
    println!("{received} datagrams received, {sent} sent back; {audit}");
    if audit.out() > 0 { Err("memory is missing".into()) } else { Ok(()) }
}

/// Echoes by `tasks` tasks until the path is closed. Returns the number of packets received.
async fn serve(path: &Port, tasks: u32) -> Result<u64, Error> {
    let mut running = tokio::task::JoinSet::new();
    let mut to_tasks = Vec::new();
    for number in 0..tasks.max(1) {
        let (to_task, packets) = mpsc::channel(BURST);
        running.spawn(echo(path.sender(&format!("task {number}"))?, packets));
        to_tasks.push(to_task);
    }
    let received = hand_out(path.served_receiver()?, path, &to_tasks).await?;
    // The tasks end when nothing more can come.
    drop(to_tasks);
    while let Some(ended) = running.join_next().await {
        match ended? {
            Ok(()) | Err(SendError::Closed) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(received)
}

/// Hands each packet to the task of its flow.
async fn hand_out(mut receiver: Receiver, path: &Port, to: &[mpsc::Sender<Packet>]) -> Result<u64, Error> {
    let (mut burst, mut received) = (path.burst(BURST), 0);
    let map = QueueMap::new(to.len() as u32);
    loop {
        match receiver.recv_async(&mut burst).await {
            Ok(count) => received += count as u64,
            Err(RecvError::Closed) => return Ok(received),
            Err(error) => return Err(error.into()),
        }
        while let Some(packet) = burst.pop() {
            // A task that has ended was told that the path is closed.
            let _ = to[map.queue_of(packet.head())].send(packet).await;
        }
    }
}

/// One task: sends the packets of its flows back.
async fn echo(mut sender: Sender, mut packets: mpsc::Receiver<Packet>) -> Result<(), SendError> {
    let mut burst = sender.burst(BURST);
    while let Some(first) = packets.recv().await {
        let more = std::iter::from_fn(|| packets.try_recv().ok()).take(BURST - 1);
        std::iter::once(first).chain(more).for_each(|packet| drop(burst.push(packet)));
        burst.packets_mut().for_each(|mut packet| turn_round(packet.head_mut()));
        _ = sender.send_async(&mut burst).await?;
    }
    Ok(())
}

/// Swaps source and destination. The sums over both, and so all checksums, stay as they are.
fn turn_round(packet: &mut [u8]) {
    let Ok(headers) = Headers::parse(packet) else { return };
    let (at, bytes) = if headers.is_ipv6 { (headers.ip_at + 8, 16) } else { (headers.ip_at + 12, 4) };
    for (at, bytes) in [(0, 6), (at, bytes), (headers.transport_at, 2)] {
        packet.get_mut(at..at + 2 * bytes).unwrap_or_default().rotate_left(bytes);
    }
}
