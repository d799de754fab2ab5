//! An echo server by a hundred tasks on two threads. `async_echo PACKETS`: plain sockets ask, and compare the answers.
//!
//! - Each task has a receiver and a sender of its own: the path gives a packet to the receiver of its number. A task turns
//!   packets round and sends them in the memory that they came in. The path sends 20 Mbit/s, so tasks wait for room.
//! - Tasks lose patience: they drop the future of a send that waits, and try again. Unsent packets stay in the burst,
//!   so nothing is lost and nothing sent twice.
//! - In the end the tasks' own sum is what the queue accepted, and what it sent.

use std::net::UdpSocket;
use std::time::Duration;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use wharf::qdisc::{Fifo, FifoLimit, Rate, Tbf};
use wharf::{Direction, PagePool, Port, Receiver, RecvError, Sender};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TASKS: usize = 100;
const CLIENTS: u32 = 4;
/// Questions of one client that are on their way: what the kernel's socket buffers hold in any case.
const WINDOW: u32 = 48;
const TIME: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let packets: u32 = std::env::args().nth(1).ok_or("usage: async_echo PACKETS")?.parse()?;
    let slow = Tbf::new(Fifo::new(FifoLimit::Packets(32)), Rate::new(20_000_000));
    // The receivers share half of the pool, and drop what goes beyond: 81 packets each, more than a client's window.
    let pool = PagePool::builder().frames(16384).build()?;
    let path =
        Port::builder("udp:127.0.0.1:0,dest=frame", Direction::Both).pool(&pool).qdisc(slow).build()?;
    let mut tasks = JoinSet::new();
    for receiver in path.receivers(TASKS, |frame| number(frame).into())? {
        tasks.spawn(answer(receiver, path.sender("task")?));
    }
    let address = path.name().trim_start_matches("udp:").to_string();
    spawn_blocking(move || ask(&address, packets)).await??;
    // Now each task receives the end.
    path.close(TIME);
    let (mut answered, mut cancelled) = (0, 0);
    while let Some(task) = tasks.join_next().await {
        let sums = task??;
        (answered, cancelled) = (answered + sums.0, cancelled + sums.1);
    }
    let (audit, counters) = (pool.audit(), path.queue()?.counters());
    let (accepted, sent) = (counters.accepted.get(), counters.sent.get());
    println!("{answered} answered, {accepted} accepted, {sent} sent; {cancelled} futures dropped");
    let is_right = [answered, accepted, sent] == [u64::from(packets); 3] && cancelled > 0 && audit.out() == 0;
    if is_right { Ok(()) } else { Err(audit.to_string().into()) }
}

/// Answers questions until there are no more. Returns the number of answers, and of futures dropped.
async fn answer(mut receiver: Receiver, mut sender: Sender) -> Result<(u64, u64), Error> {
    let (mut burst, mut answered, mut cancelled) = (sender.burst(32), 0, 0);
    loop {
        match receiver.recv_async(&mut burst).await {
            Err(RecvError::Closed) => return Ok((answered, cancelled)),
            received => answered += received? as u64,
        }
        for mut packet in burst.packets_mut() {
            packet.reply().ok_or("no datagram")?.put(&mut packet)?;
        }
        while !burst.is_empty() {
            tokio::select! {
                biased;
                sent = sender.send_async(&mut burst) => drop(sent?),
                () = yield_now() => cancelled += 1,
            }
        }
    }
}

/// The number in a datagram over IPv4.
fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[42], frame[43], frame[44], frame[45]])
}

/// Asks the server at `address` by plain sockets.
fn ask(address: &str, packets: u32) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || ask_one(address, client, packets))).collect();
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| "a client panicked")?)
    })
}

/// Asks every `CLIENTS`-th question. Each answer comes once.
fn ask_one(address: &str, client: u32, packets: u32) -> Result<(), Error> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(TIME))?;
    let mut questions = (client..packets).step_by(CLIENTS as usize);
    let mut open = std::collections::HashSet::new();
    loop {
        while open.len() < WINDOW as usize
            && let Some(number) = questions.next()
        {
            let mut question = [number as u8; 100];
            question[..4].copy_from_slice(&number.to_be_bytes());
            socket.send(&question)?;
            open.insert(number);
        }
        if open.is_empty() {
            return Ok(());
        }
        let mut answer = [0; 200];
        let bytes = socket.recv(&mut answer)?;
        let number = u32::from_be_bytes([answer[0], answer[1], answer[2], answer[3]]);
        let is_whole = bytes == 100 && answer[4..100].iter().all(|&byte| byte == number as u8);
        if !is_whole || !open.remove(&number) {
            return Err(format!("answer {number}, which is no answer to an open question").into());
        }
    }
}
