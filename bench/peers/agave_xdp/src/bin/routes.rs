//! Lookups in Agave's own route table, as its transmit loop asks it, of destinations that are drawn as
//! `wharf-net`'s example `million` draws them. Usage: agave_xdp_routes LOOKUPS
use agave_xdp::route::Router;
use std::hint::black_box;
use std::time::Instant;

/// Numbers by xorshift, the same in every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lookups: u64 = std::env::args().nth(1).ok_or("usage: agave_xdp_routes LOOKUPS")?.parse()?;
    let (router, mut state, mut found) = (Router::new()?, 46, 0);
    let began = Instant::now();
    for _ in 0..lookups {
        let to = (16 << 24) + next(&mut state) as u32 % (200 << 24);
        found += u64::from(black_box(router.route_v4(black_box(to.into()))).is_ok());
    }
    let ns = began.elapsed().as_nanos() as f64 / lookups.max(1) as f64;
    println!("{found} of {lookups} found, {ns:.1} ns a lookup");
    Ok(())
}
