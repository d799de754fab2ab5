//! One end of a tunnel: IP packets of a TAP interface travel in UDP datagrams, sealed with a key (by xor: an example).
//! `vpn TAP LOCAL:PORT PEER:PORT KEY`, until its input ends. Both ends' TAP interfaces have the address 02:00:00:00:00:01,
//! and `arp off`: the tunnel carries IP, and no Ethernet header.
//!
//! - Each direction is a handler on the thread of the path that receives: it changes a packet in place and sends it on.
//! - Headers go on and off at the front, in the packet's headroom: no byte of payload is moved.
//! - Both paths share one pool, so a packet received by one is sent by the other. Its frames hold 15872 bytes: any MTU up to 15700 fits.
//! - What is longer, or finds no room on the other side, is dropped, and counted, as a router does. The end tells each by reason.

use std::io::Read;
use std::time::Duration;
use wharf::net::UdpHeaders;
use wharf::queue::{Rest, RxQueue};
use wharf::{Direction, Packet, PagePool, Port, Wait};

type Error = Box<dyn std::error::Error>;

/// The Ethernet header of IPv4 for the TAP interface.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0];

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, tap, local, peer, key] = &arguments[..] else {
        return Err("usage: vpn TAP LOCAL:PORT PEER:PORT KEY; TAP's MTU is at most 15700".into());
    };
    let headers = UdpHeaders::between(local.parse()?, peer.parse()?).ok_or("two versions of IP")?;
    let key: u8 = key.parse()?;
    let pool = PagePool::builder().frame_bytes(16384).build()?;
    let open = |spec: String| Port::builder(&spec, Direction::Both).pool(&pool).build();
    let (inside, outside) =
        (open(format!("tap:{tap},offload=off"))?, open(format!("udp:{local},dest=frame"))?);
    let outgoing = relay(&inside, &outside, move |packet| {
        packet.trim_front(ETHERNET.len()).ok()?;
        packet.bytes_mut().iter_mut().for_each(|byte| *byte ^= key);
        headers.put(packet).ok()
    })?;
    let incoming = relay(&outside, &inside, move |packet| {
        packet.trim_front(headers.len_bytes()).ok()?;
        packet.bytes_mut().iter_mut().for_each(|byte| *byte ^= key);
        packet.prepend(ETHERNET.len()).ok()?.copy_from_slice(&ETHERNET);
        Some(())
    })?;
    println!("{} <-> {}", inside.name(), outside.name());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for (path, arrivals) in [(inside, outgoing), (outside, incoming)] {
        arrivals.drops(&mut |reason, count| println!("{count} lost on arrival: {reason}"));
        path.close(Duration::from_secs(1));
        println!("{}: {:?}", path.name(), path.queue()?.counters().failures());
    }
    let audit = pool.audit();
    if audit.out() > 0 { Err(audit.to_string().into()) } else { Ok(()) }
}

/// Sends on what `from` receives, as `change` has made it.
fn relay(
    from: &Port, to: &Port, mut change: impl FnMut(&mut Packet) -> Option<()> + Send + 'static,
) -> Result<RxQueue, Error> {
    let (mut sender, mut changed) = (to.sender("relay")?, to.burst(256));
    Ok(from.on_receive(move |arrived| {
        while let Some(mut packet) = arrived.pop() {
            if change(&mut packet).is_some() {
                // There is room for all that arrive at once.
                drop(changed.push(packet));
            }
        }
        // The queue counts what it drops, and fails only when it is closed.
        drop(sender.send_or_drop(&mut changed, Wait::Never));
        Rest::Free
    })?)
}
