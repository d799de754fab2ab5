//! One sender in a loop of its own. While the queue is full, the loop waits for a file descriptor, which could stand
//! in epoll(7) beside its sockets. Run it with `cargo run --release --example poll_loop`.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wharf::{Burst, Direction, Packet, Port, SendError, Sender, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;

const SECOND: Duration = Duration::from_secs(1);

/// Its other end becomes readable with a wake-up.
struct WakeFd(UnixStream);

impl Wake for WakeFd {
    fn wake(self: Arc<Self>) {
        // A socket that is full is readable already.
        _ = (&self.0).write(&[0]);
    }
}

fn main() -> Result<(), Error> {
    let (arrived, waits) = run(20_000)?;
    println!("{arrived} packets arrived, the loop waited {waits} times");
    Ok(())
}

/// Sends `packets` packets over a slow wire. Returns the number that arrived, and the number of waits.
fn run(packets: usize) -> Result<(usize, u64), Error> {
    let port = Port::open("wire:rate=1gbit", Direction::Send)?;
    let far_end = port.far_end()?;
    let receiving = std::thread::spawn(move || swallow(&far_end, packets));
    let mut sender = port.sender("loop")?;
    let (mut woken, wakes) = UnixStream::pair()?;
    wakes.set_nonblocking(true)?;
    let waker = Waker::from(Arc::new(WakeFd(wakes)));
    let (mut context, mut waits) = (Context::from_waker(&waker), 0);

    let (mut burst, mut left) = (sender.burst(32), packets);
    while left > 0 || !burst.is_empty() {
        let step = if burst.is_empty() {
            let packet = sender.poll_packet(&mut context, 1000);
            packet.map(|packet| make(&mut sender, &mut burst, packet?, &mut left))
        } else {
            sender.poll_send(&mut context, &mut burst).map_ok(drop)
        };
        match step {
            Poll::Ready(done) => done?,
            Poll::Pending => {
                doze(&mut woken)?;
                waits += 1;
            }
        }
    }

    drop((burst, sender));
    let arrived = receiving.join().map_err(|_| "the receiver panicked")??;
    let audit = port.close(SECOND);
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok((arrived, waits)) }
}

/// Makes a burst of `packet`, for which there is room, and of up to 31 more, as far as there is memory now.
fn make(sender: &mut Sender, burst: &mut Burst, packet: Packet, left: &mut usize) -> Result<(), SendError> {
    _ = burst.push(packet);
    sender.fill(burst, (*left).min(32) - 1, 1000, Wait::Never)?;
    burst.iter_mut().for_each(|packet| packet.fill(0));
    *left -= burst.len();
    Ok(())
}

/// Waits until the descriptor is readable; a real loop gives it (`as_fd`) to epoll with all the others.
fn doze(woken: &mut UnixStream) -> std::io::Result<()> {
    match woken.read(&mut [0; 64]) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Receives up to `packets` packets. Returns their number: fewer if none comes for a second.
fn swallow(far_end: &Port, packets: usize) -> Result<usize, Error> {
    let (mut receiver, mut burst, mut arrived) = (far_end.receiver()?, far_end.burst(64), 0);
    while arrived < packets {
        match receiver.recv(&mut burst, SECOND)? {
            0 => break,
            received => arrived += received,
        }
        burst.clear();
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_packet_leaves_though_the_loop_waits() {
        let (arrived, waits) = super::run(4_000).unwrap();
        assert_eq!(arrived, 4_000);
        assert!(waits > 0);
    }
}
