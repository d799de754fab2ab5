//! A user's test in virtual time: a sender that is faster than a wire waits, loses nothing, and is woken in turn; the same
//! in each of four runs, whatever fails.

use std::time::Duration;
use wharf::testing::Virtual;

type Error = Box<dyn std::error::Error>;

/// Sends 1,000 packets of two senders. Returns who sent each one that arrived, and the time of the last.
fn run(faults: &str) -> Result<(Vec<u8>, Duration), Error> {
    let (time, second) = (Virtual::new(), Duration::from_secs(1));
    let (port, counts) = time.port_with_faults("wire:rate=10mbit,delay=2ms,ring=64", faults)?;
    let far_end = port.far_end()?;
    let (mut receiver, mut received, mut arrived) =
        (far_end.served_receiver()?, far_end.burst(64), Vec::new());
    let mut senders = [port.sender("a")?, port.sender("b")?];
    let mut burst = port.burst(10);
    let mut take = |wait| -> Result<bool, Error> {
        let count = receiver.recv(&mut received, wait)?;
        arrived.extend(received.iter_mut().map(|packet| packet[0]));
        received.clear();
        Ok(count > 0)
    };
    for number in 0..100 {
        let sender = &mut senders[number % 2];
        sender.fill(&mut burst, 10, 125, second)?;
        burst.iter_mut().for_each(|packet| packet.fill(number as u8 % 2));
        let sent = sender.send(&mut burst, second)?;
        assert_eq!((sent.accepted, sent.left), (10, 0), "it waits, and none is left over");
        while take(Duration::ZERO)? {}
    }
    while take(second)? {}
    drop(senders);
    assert_eq!(port.close(second).out(), 0);
    let now = port.snapshot();
    assert_eq!(now.accepted, now.sent + now.failed);
    assert_eq!(arrived.len() as u64 + counts.of("error"), 1000);
    Ok((arrived, time.now()))
}

fn main() -> Result<(), Error> {
    for faults in ["error=1%,seed=1", "late=20%,reorder=5%,seed=2", "stall=10%,short=1/3,seed=3"] {
        let first = run(faults)?;
        assert_eq!(first, run(faults)?, "{faults}");
        println!("{faults}: {} arrived in {:?}, the same twice", first.0.len(), first.1);
    }
    Ok(())
}
