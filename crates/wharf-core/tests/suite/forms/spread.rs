//! The same calls of a spread over several queues.

use super::{end, full, open, polled};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Spread};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::{builder, numbered, pool};

fn spread(pool: &PagePool) -> (Vec<TxQueue>, Vec<Arc<Control>>, Spread) {
    let (gates, controls): (Vec<_>, Vec<_>) = (0..3).map(|_| Gate::new(1)).unzip();
    let fifo = || Box::new(Fifo::new(FifoLimit::Packets(2)));
    let queues: Vec<TxQueue> =
        gates.into_iter().map(|gate| builder(pool, gate).qdisc(fifo()).build().unwrap()).collect();
    let senders = queues.iter().map(|queue| queue.sender("spread").unwrap()).collect();
    (queues, controls, Spread::new(senders).unwrap())
}

/// Writes UDP over IPv4 of as many flows as packets.
fn write_flows(burst: &mut Burst) {
    for (n, bytes) in burst.iter_mut().enumerate() {
        bytes.fill(0);
        bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        bytes[17] = 46;
        bytes[23] = 17;
        bytes[34..36].copy_from_slice(&(n as u16 * 257).to_be_bytes());
    }
}

#[test]
fn spread_sends_in_every_form() {
    let pool = pool(128);
    let (queues, controls, mut spread) = spread(&pool);
    let mut context = Context::from_waker(Waker::noop());
    let (mut burst, second) = (pool.burst(32), Duration::from_secs(50));
    assert!(spread.is_ready() && spread.poll_ready(&mut context).is_ready());
    let fill = |spread: &mut Spread, burst: &mut Burst| {
        while burst.len() < 32 {
            let missing = 32 - burst.len();
            spread.fill(burst, missing, 64, second).unwrap();
        }
        write_flows(burst);
    };
    // Every queue takes three packets and is full.
    fill(&mut spread, &mut burst);
    let dropped = spread.send_or_drop(&mut burst, Wait::Never).unwrap().dropped as u64;
    assert_eq!((burst.len(), dropped + spread.packets()), (0, 32));
    assert!(!spread.is_ready() && spread.poll_ready(&mut context).is_pending());
    // A future that is dropped gives the packets back.
    fill(&mut spread, &mut burst);
    assert!(polled(spread.send_async(&mut burst)).is_pending());
    assert_eq!(burst.len(), 32);
    assert_eq!(spread.send(&mut burst, Duration::ZERO).unwrap().left, 32);
    assert_eq!(spread.send(&mut burst, Wait::Never).unwrap().accepted, 0);
    assert_eq!(spread.send_or_drop(&mut burst, Duration::ZERO).unwrap().dropped, 32);
    let packet = spread.packet(64, Wait::Never).unwrap();
    assert!(spread.wait_for_memory(Duration::ZERO).unwrap());
    drop(packet);
    // Memory: all of it is out, then some comes back.
    let mut held = pool.burst(256);
    // A few lie where only a sender that waits gives them up.
    while spread.fill(&mut held, 128, 64, Duration::ZERO).unwrap() > 0 {}
    assert_eq!(held.len() as u64, 128 - spread.packets());
    assert_eq!(spread.fill(&mut burst, 1, 64, Duration::ZERO).unwrap(), 0);
    assert_eq!(spread.fill(&mut burst, 1, 64, Wait::Never).unwrap(), 0);
    assert!(polled(spread.fill_async(&mut burst, 1, 64)).is_pending());
    drop(held);
    assert!(matches!(polled(spread.fill_async(&mut burst, 1, 64)), Poll::Ready(Ok(1))));
    controls.iter().for_each(|control| open(control));
    assert!(matches!(polled(poll_fn(|context| spread.poll_ready(context))), Poll::Ready(Ok(()))));
    write_flows(&mut burst);
    assert!(matches!(polled(spread.send_async(&mut burst)), Poll::Ready(Ok(_))));
    let (packet, before) = (spread.packet(64, Wait::Never).unwrap(), spread.packets());
    _ = spread.send_packet(packet, Wait::Forever).unwrap();
    assert_eq!(spread.packets(), before + 1);
    let drops: u64 = spread.senders().iter().map(|sender| sender.counters().drops.get()).sum();
    assert_eq!(drops, dropped + 32);
    drop((burst, spread));
    queues.iter().zip(&controls).for_each(|(queue, control)| end(queue, control));
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn a_canceller_ends_the_wait_of_any_queue_of_a_spread() {
    let (queue, control) = full();
    let (other, other_control) = Gate::new(1);
    let second =
        builder(queue.pool(), other).qdisc(Box::new(Fifo::new(FifoLimit::Packets(2)))).build().unwrap();
    let mut filler = second.sender("fills").unwrap();
    let mut burst = numbered(&mut filler, 0, 8, 64);
    while filler.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
    for queue in [&queue, &second] {
        // A spread whose packets are all of the queue that comes last.
        let [first, last] = [&second, queue].map(|queue| queue.sender("waits").unwrap());
        let mut spread = Spread::new(vec![first, last]).unwrap();
        let canceller = spread.canceller();
        let mut packets = numbered(spread.first(), 0, 64, 64);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || spread.send(&mut packets, Wait::Forever));
            while !waits.is_finished() {
                canceller.cancel();
                std::thread::yield_now();
            }
            assert!(matches!(waits.join().unwrap(), Err(SendError::Cancelled)));
        });
    }
    drop((filler, burst));
    open(&control);
    assert!(queue.drain(Duration::MAX));
    end(&second, &other_control);
    end(&queue, &control);
}
