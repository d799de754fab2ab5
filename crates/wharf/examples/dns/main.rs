//! A name server: questions arrive at a UDP socket, are answered in the frames that they came in, and leave by the same
//! socket, many in a call. No bytes are copied in between, nothing is allocated, and no thread waits but the poller's.
//!
//! `cargo run --release --example dns -- 127.0.0.1:5353`, then `dig @127.0.0.1 -p 5353 one.wharf.test`: it knows the zone
//! `wharf.test` (RFC 6761 keeps `test` for such uses), with an IPv4 address for each of the names `one` to `nine`.

mod headers;
mod message;

use std::sync::Arc;
use wharf::devices::host::{HostClock, HostPark, PollerThread};
use wharf::devices::open::{Direction, open};
use wharf::pool::{Burst, Packet, PagePool};
use wharf::queue::TxQueue;
use wharf::rx::{Handler, Rest, RxQueue};
use wharf::sender::Sender;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5353".into());
    let _server = Server::start(&address)?;
    println!("answering at {address}: ask for one.wharf.test; Ctrl-C ends it");
    loop {
        std::thread::park();
    }
}

/// It answers until it is dropped.
struct Server {
    queue: TxQueue,
    poller: Option<PollerThread>,
}

impl Server {
    /// At `address`, as in 0.0.0.0:53.
    fn start(address: &str) -> Result<Self, Error> {
        let pool = PagePool::builder().frames(2048).clock(Arc::new(HostClock)).build()?;
        // One socket, both ways: it is bound to the address, and each frame goes to where it says.
        let device = open(&format!("udp:{address},dest=frame"), Direction::Send)?.device;
        let queue = TxQueue::builder(&pool, device, Arc::new(HostClock), Arc::new(HostPark)).build()?;
        let receiver = RxQueue::of(&queue, answering(queue.sender("answers")?))?;
        let poller = PollerThread::builder().receiver(&receiver).start()?;
        Ok(Self { queue, poller: Some(poller) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.poller = None;
        self.queue.shutdown(0);
    }
}

/// Turns questions into answers, and sends them; what is no question is freed. What does not fit into the queue is shown
/// again, and nothing more is received before it has gone.
fn answering(mut sender: Sender) -> Handler {
    let mut shown_again = false;
    Box::new(move |burst: &mut Burst| {
        if !shown_again {
            for _ in 0..burst.len() {
                // Out at the front, and in at the back, where there is room for it then.
                let answered = burst.pop().and_then(answered);
                answered.into_iter().for_each(|packet| drop(burst.push(packet)));
            }
        }
        let sent = sender.try_send(burst);
        shown_again = sent.is_ok() && !burst.is_empty();
        if shown_again { Rest::Again } else { Rest::Free }
    })
}

/// The answer to a question, in the same memory.
fn answered(mut packet: Packet) -> Option<Packet> {
    let asked_bytes = packet.len();
    // Room behind the question; what is not needed is cut off again.
    packet.set_len((asked_bytes + message::RECORD_BYTES) as u32).ok()?;
    let frame = packet.bytes_mut();
    let message_at = headers::turn_round(frame)?;
    let asked = asked_bytes.checked_sub(message_at)?;
    let bytes = message::answer(frame.get_mut(message_at..)?, asked)?;
    headers::set_lengths(frame, message_at, bytes);
    packet.set_len((message_at + bytes) as u32).ok()?;
    Some(packet)
}

#[cfg(test)]
mod tests;
