//! What arrives is spread over workers by flow; one that is slow holds up only itself. `broker SPEC WORKERS SLOW_US`, until
//! its input ends: worker 0 takes SLOW_US for each packet. At the end, what came is what was seen and what was lost, by reason.

use std::io::Read;
use std::thread;
use std::time::Duration;
use wharf::{Direction, Port, Receiver, net};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, spec, workers, slow] = &arguments[..] else {
        return Err("usage: broker SPEC WORKERS SLOW_US".into());
    };
    let (port, slow) = (Port::open(spec, Direction::Both)?, Duration::from_micros(slow.parse()?));
    let work = |(number, mut receiver): (usize, Receiver)| {
        let mut burst = port.burst(64);
        thread::spawn(move || {
            let mut seen = 0;
            // It ends with the port; an error of the device is none.
            loop {
                match receiver.recv(&mut burst, wharf::Wait::Forever) {
                    Err(error) if error.is_end() => break,
                    Err(error) => eprintln!("{error}"),
                    Ok(count) => seen += count as u64,
                }
                let packets = burst.len() as u32;
                burst.clear();
                if number == 0 {
                    thread::sleep(slow * packets);
                }
            }
            seen
        })
    };
    let receivers = port.receivers(workers.parse()?, net::flow_hash)?;
    let threads: Vec<_> = receivers.into_iter().enumerate().map(work).collect();
    println!("listening on {}", port.name());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    port.close(Duration::from_secs(1));
    let seen = threads.into_iter().map(|thread| thread.join().map_err(|_| "a worker panicked"));
    let seen = seen.sum::<Result<u64, _>>()?;
    let now = port.snapshot();
    println!("{} came, {} lost before, {seen} seen, dropped: {:?}", now.received, now.lost, now.drops);
    if now.received == seen + now.received_drops { Ok(()) } else { Err("some are missing".into()) }
}
