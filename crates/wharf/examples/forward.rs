//! A forwarder between two devices, in both directions. No packet is lost when one device is slower: the forwarder keeps packets
//! that cannot be sent yet, and receives no more meanwhile.
//!
//! `cargo run --release --example forward`: host A sends to the forwarder, host B echoes its packets, by a handler of its
//! own on the receive side of its queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf::device::{AnyDevice, Opened, Registry};
use wharf::forward::{Forward, ForwardSettings};
use wharf::queue::{Handler, Rest};
use wharf::{Burst, Direction, Owners, Port, PortBuilder, Sender, Wait};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let [forwarded, echoed] = run(100_000)?;
    println!("{forwarded} frames went through to host B; {echoed} came back to host A");
    Ok(())
}

/// Sends `packets` from host A. Returns the number that arrived at host B, and the number that came back.
fn run(packets: usize) -> Result<[u64; 2], Error> {
    let open = |spec| Registry::default().open(spec, Direction::Send);
    let (mut fast, mut slow) = (open("wire")?, open("wire:rate=2gbit")?);
    let (far_a, far_b) = (fast.far_end.take(), slow.far_end.take());

    // The forwarder: both directions send frames of one pool, so that no byte is copied on the way through.
    let ends = [fast, slow].map(|end| Port::builder_over(vec![end], Direction::Both));
    let forwarder = Forward::start(ends, &ForwardSettings::default())?;

    // The hosts, each with memory of its own; one poller serves both.
    let a = host(far_a)?.build()?;
    let b = host(far_b)?.poller_of(&a).build()?;
    let (came_back, arrived) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    a.on_receive(count(&came_back))?;
    b.on_receive(echo(b.sender("echo")?, &arrived))?;

    let mut sender = a.sender("host a")?;
    let (mut burst, mut left) = (sender.burst(32), packets);
    while left > 0 {
        left -= sender.fill(&mut burst, left.min(32), 200, Wait::Forever)?;
        burst.iter_mut().for_each(|packet| packet.fill(left as u8));
        _ = sender.send(&mut burst, Wait::Forever)?;
    }
    let until = Instant::now() + Duration::from_secs(60);
    while came_back.load(Relaxed) < packets as u64 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((burst, sender, a, b));
    for direction in forwarder.finish(Duration::ZERO) {
        assert!(direction.drops.is_empty() && direction.missing().is_none(), "{direction:?}");
    }
    Ok([arrived.load(Relaxed), came_back.load(Relaxed)])
}

/// Sends the packets that fit. The poller shows the rest again, and receives no more before they have gone.
fn pass_on(mut sender: Sender) -> Handler {
    Box::new(move |burst: &mut Burst| match sender.send(burst, Wait::Never) {
        Ok(_) => Rest::Again,
        // The queue is closed.
        Err(_) => Rest::Free,
    })
}

fn echo(sender: Sender, arrived: &Arc<AtomicU64>) -> Handler {
    let (mut pass_on, arrived) = (pass_on(sender), arrived.clone());
    Box::new(move |burst: &mut Burst| {
        let before = burst.len();
        let rest = pass_on(burst);
        arrived.fetch_add((before - burst.len()) as u64, Relaxed);
        rest
    })
}

fn count(frames: &Arc<AtomicU64>) -> Handler {
    let frames = frames.clone();
    Box::new(move |burst: &mut Burst| {
        frames.fetch_add(burst.len() as u64, Relaxed);
        Rest::Free
    })
}

/// Returns the settings of a host at the far end of a wire.
fn host(far_end: Option<AnyDevice>) -> Result<PortBuilder, Error> {
    let device = Opened::new(far_end.ok_or("a wire has two ends")?);
    Ok(Port::builder_over(vec![device], Direction::Both).owners(Owners::Senders))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sent_frames_go_through_and_come_back() {
        assert_eq!(super::run(5_000).unwrap(), [5_000; 2]);
    }
}
