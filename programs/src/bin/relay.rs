//! A stream is sent on to several receivers at an even pace: `relay INPUT OUTPUT SOURCE:PORT GAP_US DESTINATION:PORT...`,
//! until its input ends. INPUT is a `udp:` port that listens, OUTPUT one whose frames say where they go.
//!
//! Each datagram leaves a gap after the one before to the same receiver, by `edt`, and is dropped as `expired` if it has
//! not left 5 ms after it came.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wharf::net::UdpHeaders;
use wharf::qdisc::{Edt, EdtOptions};
use wharf::queue::Rest;
use wharf::{Direction, Port};

/// Time after which a datagram is of no use.
const AGE_MAX: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output, source, gap, receivers @ ..] = &arguments[..] else {
        return Err("usage: relay INPUT OUTPUT SOURCE:PORT GAP_US DESTINATION:PORT...".into());
    };
    let (source, gap): (SocketAddr, _) = (source.parse()?, Duration::from_micros(gap.parse()?));
    let to = |text: &String| UdpHeaders::between(source, text.parse().ok()?);
    let headers: Vec<UdpHeaders> =
        receivers.iter().map(to).collect::<Option<_>>().ok_or("no such receiver")?;
    let from = Port::open(input, Direction::Both)?;
    let output = Port::builder(output, Direction::Send).qdisc(Edt::new(EdtOptions::default())).build()?;
    let (mut sender, mut leaving) = (output.sender("relay")?, output.burst(256));
    let mut next = vec![Instant::now(); headers.len()];
    from.on_receive(move |arrived| {
        while let Some(packet) = arrived.pop() {
            let (now, Some(datagram)) = (Instant::now(), packet.datagram()) else { continue };
            for (headers, next) in headers.iter().zip(&mut next) {
                let Ok(mut copy) = sender.packet(datagram.payload.len() as u32, Duration::ZERO) else {
                    break;
                };
                copy.bytes_mut().copy_from_slice(datagram.payload);
                if headers.put(&mut copy).is_err() {
                    continue;
                }
                *next = now.max(*next + gap);
                copy.depart_at(*next);
                copy.expire_at(now + AGE_MAX);
                drop(leaving.push(copy));
            }
        }
        _ = sender.send_or_drop(&mut leaving, Duration::ZERO);
        Rest::Free
    })?;
    println!("relaying from {}", from.name());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for port in [from, output] {
        port.close(Duration::from_secs(1));
        let now = port.snapshot();
        println!("{}: {} came, {} sent, lost {:?}", now.device, now.received, now.sent, now.drops);
    }
    Ok(())
}
