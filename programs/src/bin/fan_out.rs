//! A retransmitter by the kernel's routes: producers hand over payloads, and each leaves for up to 200 destinations, wherever they are.
//! `fan_out PRODUCERS SECONDS drop|wait|MS FIRST COUNT DEVICE:INTERFACE...`: destinations are COUNT addresses from FIRST on. What finds its
//! port full is dropped, waits, or is dropped after so many milliseconds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use wharf::{Direction, PagePool, Port, Wait};
use wharf_route::{HEADROOM_BYTES, RouteSender, Router};

/// Datagrams that are handed over at a time.
const TOGETHER: usize = 32;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A payload, and who gets it.
#[derive(Clone)]
struct Job {
    payload: Arc<[u8]>,
    to: Arc<[SocketAddr]>,
}

#[derive(Clone, Copy)]
enum WhenFull {
    Drop,
    Wait,
    Until(Duration),
}

impl WhenFull {
    fn of(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "drop" => Self::Drop,
            "wait" => Self::Wait,
            ms => Self::Until(Duration::from_millis(ms.parse()?)),
        })
    }

    fn wait(self) -> Wait {
        match self {
            Self::Drop => Wait::Never,
            Self::Wait => Wait::Forever,
            Self::Until(time) => Wait::Until(Instant::now() + time),
        }
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [producers, seconds, when_full, first, count, devices @ ..] = &arguments[..] else {
        return Err("usage: fan_out PRODUCERS SECONDS drop|wait|MS FIRST COUNT DEVICE:INTERFACE...".into());
    };
    let (first, count): (Ipv4Addr, u32) = (first.parse()?, count.parse()?);
    let to: Arc<[_]> = (0..count.min(200))
        .map(|at| SocketAddr::new(Ipv4Addr::from_bits(first.to_bits() + at).into(), 8001))
        .collect();
    let pool = PagePool::builder().frames(8192).frame_bytes(4096).headroom_bytes(HEADROOM_BYTES).build()?;
    let open = |device: &String| -> Result<_, Error> {
        let (_, interface) = device.split_once(':').ok_or("DEVICE:INTERFACE")?;
        Ok((interface.to_owned(), Port::builder(device, Direction::Send).pool(&pool).build()?))
    };
    let router = Router::new(devices.iter().map(open).collect::<Result<Vec<_>, _>>()?)?;
    let (when_full, time) = (WhenFull::of(when_full)?, Duration::try_from_secs_f64(seconds.parse()?)?);
    thread::scope(|scope| -> Result<(), Error> {
        let (mut jobs, mut threads) = (Vec::new(), Vec::new());
        for device in devices {
            let ((hand_over, taken), sender) = (sync_channel(64), router.sender(device)?);
            threads.push(scope.spawn(move || send(sender, &taken, when_full)));
            jobs.push(hand_over);
        }
        for number in 0..producers.parse::<usize>()? {
            let job = Job { payload: vec![number as u8; 1232].into(), to: to.clone() };
            let to = jobs[number % jobs.len()].clone();
            scope.spawn(move || produce(&job, &to, time));
        }
        drop(jobs);
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    router.end();
    let closed: usize = router.ports().iter().map(|(_, port)| port.close(Duration::from_secs(5)).out()).sum();
    let counts = router.counts();
    println!(
        "{} given, {} routed, dropped: {:?}",
        counts.given,
        counts.routed,
        counts.drops().collect::<Vec<_>>()
    );
    for (name, port) in router.ports() {
        println!("{name}: {} sent", port.snapshot().sent);
    }
    if closed > 0 { Err("memory did not come back".into()) } else { Ok(()) }
}

fn produce(job: &Job, to: &SyncSender<Job>, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && to.send(job.clone()).is_ok() {}
}

/// Sends each payload to its destinations.
fn send(mut sender: RouteSender, jobs: &Receiver<Job>, when_full: WhenFull) -> Result<(), Error> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8001);
    let mut datagrams = Vec::with_capacity(TOGETHER);
    for Job { payload, to } in jobs {
        let wait = when_full.wait();
        for some in to.chunks(TOGETHER) {
            for to in some {
                // Memory comes back as packets leave: what finds none is as late as what finds no room.
                let Ok(mut packet) = sender.packet(payload.len() as u32, Wait::Forever) else {
                    return Ok(());
                };
                packet.bytes_mut().copy_from_slice(&payload);
                datagrams.push((packet, *to));
            }
            sender.send_datagrams(datagrams.drain(..), any, wait)?;
        }
        sender.flush_or_drop(wait);
    }
    Ok(())
}
