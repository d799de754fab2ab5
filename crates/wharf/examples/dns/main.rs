//! A name server. Questions arrive at a UDP socket, are answered in the frames that they came in, and leave by the same
//! socket, many in a call. The server copies no bytes and allocates nothing, and only the poller's thread waits.
//!
//! `cargo run --release --example dns -- 127.0.0.1:5353`, then `dig @127.0.0.1 -p 5353 one.wharf.test`. The zone is
//! `wharf.test` (RFC 6761 reserves `test`), with an IPv4 address for each of the names `one` to `nine`.

mod message;

use wharf::queue::{Handler, Rest};
use wharf::{Burst, Direction, Owners, Packet, Port, Sender, Wait};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5353".into());
    let _server = Server::start(&address)?;
    println!("answering at {address}: ask for one.wharf.test; Ctrl-C ends it");
    loop {
        std::thread::park();
    }
}

/// A name server that answers until it is dropped.
struct Server {
    _port: Port,
}

impl Server {
    /// Starts a server at `address`, such as 0.0.0.0:53.
    fn start(address: &str) -> Result<Self, Error> {
        // One socket for both ways: it is bound to the address, and each frame goes to its own destination.
        let port = Port::builder(&format!("udp:{address},dest=frame"), Direction::Both);
        let port = port.owners(Owners::Senders).build()?;
        port.on_receive(answering(port.sender("answers")?))?;
        Ok(Self { _port: port })
    }
}

/// Turns questions into answers and sends them; other frames are freed. The poller shows frames that do not fit into the queue
/// again, and receives no more before they have gone.
fn answering(mut sender: Sender) -> Handler {
    let mut shown_again = false;
    Box::new(move |burst: &mut Burst| {
        if !shown_again {
            for _ in 0..burst.len() {
                // The frame leaves at the front, so there is room for it at the back.
                let answered = burst.pop().and_then(answered);
                answered.into_iter().for_each(|packet| drop(burst.push(packet)));
            }
        }
        let sent = sender.send(burst, Wait::Never);
        shown_again = sent.is_ok() && !burst.is_empty();
        if shown_again { Rest::Again } else { Rest::Free }
    })
}

/// Writes the answer to a question into the same memory.
fn answered(mut packet: Packet) -> Option<Packet> {
    let headers = packet.reply()?;
    let asked = packet.len();
    // Room behind the question; the rest is truncated again.
    packet.extend_back(message::RECORD_BYTES).ok()?;
    let bytes = message::answer(packet.bytes_mut(), asked)?;
    packet.set_len(bytes as u32).ok()?;
    headers.put(&mut packet).ok()?;
    Some(packet)
}

#[cfg(test)]
mod tests;
