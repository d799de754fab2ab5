//! Four queues of an adapter, a thread and a path for each, one pool for all. `multi_queue OUT IN QUEUES PACKETS`: threads
//! send by the queues of interface OUT, and receive by those of IN, its peer.
//!
//! - `build_queues` opens a path for each queue. Metrics and errors call them `xdp:eth0`, `xdp:eth0#1`, ...
//! - All paths share one pool. Each thread is the only sender of its queue, and so runs it in its own calls; its receiver
//!   polls on the same thread. No thread waits for another one, and no packet changes its processor.
//! - A veth gives what was sent by a queue to the peer's queue of that number: each thread gets its own packets back.

use std::thread;
use std::time::Duration;
use wharf::{Direction, PagePool, Port};

type Error = Box<dyn std::error::Error + Send + Sync>;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, out, into, queues, packets] = &arguments[..] else {
        return Err("usage: multi_queue OUT IN QUEUES PACKETS".into());
    };
    let (queues, packets): (u32, usize) = (queues.parse()?, packets.parse()?);
    let pool = PagePool::builder().frames(16384).build()?;
    let open = |interface, direction| {
        Port::builder(&format!("xdp:{interface}"), direction)
            .pool(&pool)
            .build_queues(queues, |queue, _| queue)
    };
    let (out, into) = (open(out, Direction::Send)?, open(into, Direction::Receive)?);
    thread::scope(|scope| {
        let run = |(number, (out, into))| scope.spawn(move || there_and_back(out, into, number, packets));
        let threads: Vec<_> = (0..).zip(out.iter().zip(&into)).map(run).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    for (out, into) in out.iter().zip(&into) {
        println!("{} -> {}: {}", out.name(), into.name(), out.queue()?.counters().sent.get());
    }
    out.iter().chain(&into).for_each(|path| _ = path.close(SECOND));
    let audit = pool.audit();
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok(()) }
}

/// Sends `packets` packets by `out`, each filled with `number`, and receives them by `into`.
fn there_and_back(out: &Port, into: &Port, number: u8, packets: usize) -> Result<(), Error> {
    let (mut sender, mut receiver) = (out.sender("thread")?, into.receiver()?);
    let (mut burst, mut left) = (out.burst(64), packets);
    while left > 0 {
        let mut on_the_way = sender.fill(&mut burst, left.min(64), 200, SECOND)?;
        burst.iter_mut().for_each(|packet| packet.fill(number));
        _ = sender.send(&mut burst, SECOND)?;
        left -= on_the_way;
        while on_the_way > 0 {
            let count = receiver.recv(&mut burst, SECOND)?;
            if count == 0 || burst.iter_mut().flatten().any(|byte| *byte != number) {
                return Err(format!("{}: {on_the_way} missing, or others' packets", into.name()).into());
            }
            on_the_way -= count;
            burst.clear();
        }
    }
    Ok(())
}
