//! A name server past the kernel, whose clients may be anywhere: answers leave by the kernel's routes, whichever interface the question came
//! by. `name_server PORT INTERFACE...`: questions to that UDP port arrive by `xdp`; all else stays with the host. It ends with its input.

#[path = "../../../crates/wharf/examples/dns/message.rs"]
mod message;

use std::time::Duration;
use wharf::queue::Rest;
use wharf::{Burst, Direction, Packet, PagePool, Port, Wait};
use wharf_route::{HEADROOM_BYTES, RouteSender, Router};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [udp_port, interfaces @ ..] = &arguments[..] else {
        return Err("usage: name_server PORT INTERFACE...".into());
    };
    let pool = PagePool::builder().frame_bytes(4096).headroom_bytes(HEADROOM_BYTES).build()?;
    let open = |interface: &String| -> Result<_, Error> {
        let port = Port::builder(&format!("xdp:{interface},steer=udp:{udp_port}"), Direction::Both);
        Ok((interface.clone(), port.pool(&pool).build()?))
    };
    let router = Router::new(interfaces.iter().map(open).collect::<Result<Vec<_>, _>>()?)?;
    for (name, port) in router.ports() {
        let mut sender = router.sender(name)?;
        port.on_receive(move |burst: &mut Burst| {
            while let Some(question) = burst.pop() {
                _ = answer(question, &mut sender);
            }
            sender.flush_or_drop(Wait::Never);
            Rest::Free
        })?;
    }
    println!("listening by {interfaces:?}");
    std::io::stdin().read_line(&mut String::new())?;
    router.end();
    router.ports().iter().for_each(|(_, port)| _ = port.close(Duration::from_secs(1)));
    for (name, port) in router.ports() {
        println!("{name}: {} questions, {} answers", port.snapshot().received, port.snapshot().sent);
    }
    let counts = router.counts();
    println!(
        "{} answers, {} routed, dropped: {:?}",
        counts.given,
        counts.routed,
        counts.drops().collect::<Vec<_>>()
    );
    Ok(())
}

/// Writes the answer into the memory of the question, and sends it from the address that was asked.
fn answer(mut packet: Packet, sender: &mut RouteSender) -> Option<()> {
    let [from, to] = packet.datagram().map(|question| [question.destination, question.source])?;
    packet.reply()?;
    let asked = packet.len();
    packet.extend_back(message::RECORD_BYTES).ok()?;
    let bytes = message::answer(packet.bytes_mut(), asked)?;
    packet.set_len(bytes as u32).ok()?;
    // An error says that a port is being closed.
    _ = sender.send_datagram(packet, from, to, Wait::Never);
    Some(())
}
