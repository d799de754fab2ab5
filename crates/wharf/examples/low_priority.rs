//! One sender of the lowest priority (`SCHED_IDLE`) beside busy loops on every processor, and one of normal priority: how
//! long is the second one's longest call, by the owners of the queue? With [`Owners::Senders`] the first one is now and then
//! taken off its processor while it runs the queue for both, for as long as the busy loops please. Run it with
//! `cargo run --release --example low_priority [SECONDS]`.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wharf::Owners;
use wharf::{Direction, Port};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).map_or(Ok(3), |arg| arg.parse())?;
    println!("owners   longest call of the other sender   its packets   those of the first");
    for owners in [Owners::Senders, Owners::Auto, Owners::Poller { cpu: None }] {
        let (longest, packets, first) = run(owners, Duration::from_secs(seconds))?;
        println!("{owners:?}   {:.1} ms   {packets}   {first}", longest.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Returns the longest call of the sender of normal priority, its packets, and those of the other one.
fn run(owners: Owners, time: Duration) -> Result<(Duration, usize, usize), Error> {
    let path = Port::builder("udp:127.0.0.1:9", Direction::Send).owners(owners).build()?;
    let (over, path) = (&AtomicBool::new(false), &path);
    let measured = thread::scope(|scope| {
        for _ in 0..thread::available_parallelism()?.get() {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let first = scope.spawn(move || {
            lower_priority()?;
            send(path, "low", over, None)
        });
        let (longest, packets) = send(path, "normal", over, Some(time))?;
        over.store(true, Relaxed);
        let (_, first) = first.join().map_err(|_| "the first sender panicked")??;
        Ok::<_, Error>((longest, packets, first))
    })?;
    let audit = path.close(Duration::from_secs(5));
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok(measured) }
}

/// Gives the calling thread the lowest priority there is.
fn lower_priority() -> Result<(), Error> {
    let link = std::fs::read_link("/proc/thread-self")?;
    let thread = link.file_name().ok_or("no thread")?;
    let is_done = Command::new("chrt").args(["--idle", "--pid", "0"]).arg(thread).status()?.success();
    if is_done { Ok(()) } else { Err("chrt failed".into()) }
}

/// Sends bursts of 32 until `over`, or for `time`. Returns the time of its longest call, and its packets.
fn send(
    path: &Port, name: &str, over: &AtomicBool, time: Option<Duration>,
) -> Result<(Duration, usize), Error> {
    let mut sender = path.sender(name)?;
    let (mut burst, mut longest, mut packets) = (sender.burst(32), Duration::ZERO, 0);
    let began = Instant::now();
    while !over.load(Relaxed) && time.is_none_or(|time| began.elapsed() < time) {
        let called = Instant::now();
        packets += sender.fill(&mut burst, 32, 100, Duration::from_secs(5))?;
        for packet in burst.iter_mut() {
            write_headers(packet);
        }
        _ = sender.send(&mut burst, Duration::from_secs(5))?;
        longest = longest.max(called.elapsed());
        // As a program with other work: about 30,000 packets a second.
        thread::sleep(Duration::from_millis(1));
    }
    Ok((longest, packets))
}

/// Writes Ethernet, IPv4 and UDP headers for 58 bytes of payload; the socket sends that payload.
fn write_headers(packet: &mut [u8]) {
    packet.fill(0);
    packet[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    packet[16..18].copy_from_slice(&86u16.to_be_bytes());
    packet[22..24].copy_from_slice(&[64, 17]);
    packet[38..40].copy_from_slice(&66u16.to_be_bytes());
}
