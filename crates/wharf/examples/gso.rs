//! The cost of super-packets, for callgrind to count (`bench/gso.sh`).
//!
//! `gso path PACKETS BURST` sends 64-byte packets by the one-sender path over `null`, `gso beside PACKETS BURST` over a `null` that can
//! cut nothing, so that the wrapper is there and has nothing to do; `gso cut PACKETS` cuts super-packets of 64 KiB into segments
//! of 1514 bytes.

use wharf::device::{Batch, Cache, Frame, Meta, Opened};
use wharf::net::gso::GSO_TCPV4;
use wharf::{Direction, PagePool, Port, Wait};
use wharf_core::gso::{SegmentJob, SoftwareGso};
use wharf_devices::null::Null;
use wharf_testkit::wrappers::Helpless;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(Ok(otherwise), |text| text.parse());
    let (packets, burst) = (number(1, 10_000)?, number(2, 32)?);
    match arguments.first().map(String::as_str) {
        Some("path") => send(Opened::tx(Null::default()), packets, burst),
        Some("beside") => send(Opened::tx(Helpless::<Null>::default()), packets, burst),
        Some("cut") => cut(packets),
        _ => Err("gso path|beside|cut [PACKETS [BURST]]".into()),
    }
}

fn pool() -> Result<PagePool, Error> {
    Ok(PagePool::builder().frames(4096).build()?)
}

fn send(device: Opened, packets: usize, count: usize) -> Result<(), Error> {
    let mut path = Port::builder_over(vec![device], Direction::Send).pool(&pool()?).build_direct()?;
    let mut burst = path.burst(count);
    for _ in 0..packets / count.max(1) {
        path.fill(&mut burst, count, 64, Wait::Never)?;
        _ = path.send(&mut burst, Wait::Forever)?;
    }
    println!("{} packets", path.counters().packets.get());
    Ok(())
}

/// A TCP super-packet of 45 segments.
fn super_packet(cache: &mut Cache) -> Result<Frame, Error> {
    let mut bytes = vec![0; 54 + 45 * 1460];
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    (bytes[23], bytes[46]) = (6, 0x50);
    let region = cache.pool().region().clone();
    let mut pieces = Vec::new();
    for chunk in bytes.chunks(region.data_bytes_max() as usize) {
        let mut piece = Batch::new(1);
        cache.take(&mut piece, 1, chunk.len() as u32)?;
        let mut piece = piece.pop().ok_or("a frame was taken")?;
        region.bytes_mut(&mut piece)?.copy_from_slice(chunk);
        pieces.push(piece);
    }
    let mut pieces = pieces.into_iter();
    let mut chain = region.chain(pieces.next().ok_or("a packet has bytes")?);
    for piece in pieces {
        chain.push(piece).map_err(|(error, _)| error)?;
    }
    let mut frame = chain.done();
    region.set_meta(&mut frame, &Meta { gso_kind: GSO_TCPV4, gso_bytes: 1460, ..Meta::default() })?;
    Ok(frame)
}

fn cut(packets: usize) -> Result<(), Error> {
    let pool = pool()?;
    let mut cache = pool.cache("gso")?;
    let frame = super_packet(&mut cache)?;
    let (mut software, mut pieces, mut made) = (SoftwareGso::default(), Batch::new(64), 0);
    for _ in 0..packets {
        let mut job = SegmentJob::segment(&frame, pool.region())?;
        made += software.segment(&mut job, &frame, &mut cache, &mut pieces)?;
        cache.give(&mut pieces)?;
    }
    cache.give_one(frame).map_err(|(error, _)| error)?;
    println!("{made} segments");
    Ok(())
}
