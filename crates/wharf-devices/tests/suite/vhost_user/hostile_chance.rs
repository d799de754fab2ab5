//! Drivers that do what chance says: rings scribbled over, odd messages, ends at any moment. Each is survived, and the next driver, which
//! keeps the rules, has a frame each way. `WHARF_HOSTILE=200 cargo test --release -p wharf-devices --test suite chance`.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::*;
use super::rig::Rig;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use wharf_core::device::TxDevice;
use wharf_core::random::SplitMix64;
use wharf_devices::virtio::feature;
use wharf_mem::Meta;

/// Bytes of the first pair's rings, which lie at the beginning of the memory.
const RINGS_BYTES: u64 = 128 << 10;
/// The bound for the next driver. The time that it took is printed.
const NEXT: Duration = Duration::from_secs(10);

/// Returns a word that a device may stumble over.
fn odd_word(chance: &mut SplitMix64) -> u64 {
    match chance.below(5) {
        0 => chance.draw(),
        1 => u64::MAX - chance.below(4),
        2 => GUEST + chance.below(MEMORY_BYTES as u64 + 64),
        3 => chance.below(4),
        _ => chance.below(1 << 20),
    }
}

/// Does one thing that no driver should do.
fn misbehave(chance: &mut SplitMix64, peer: &mut Peer, pair: &mut Pair) {
    match chance.below(8) {
        0..=3 => {
            for _ in 0..chance.below(64) {
                // Some of them near the beginning, where the first descriptors and the indices are.
                let reach = [64, 4096, RINGS_BYTES][chance.below(3) as usize];
                let at = chance.below(2) * (RINGS_BYTES / 2) + chance.below(reach / 2);
                let word = odd_word(chance);
                peer.view().copy_in(at as usize, &word.to_le_bytes());
            }
        }
        4 => {
            let body: Vec<u8> = (0..chance.below(48)).map(|_| chance.draw() as u8).collect();
            let fds = vec![peer.fd(); chance.below(3) as usize];
            peer.send(chance.below(45) as u32, &body, &fds);
        }
        5 => peer.send(SET_VRING_NUM, &state(chance.below(3) as u32, odd_word(chance) as u32), &[]),
        6 => {
            let [a, b, c] = [odd_word(chance), odd_word(chance), odd_word(chance)];
            peer.send(SET_VRING_ADDR, &addresses(chance.below(3) as u32, a, b, c), &[]);
        }
        _ => peer.send(SET_VRING_KICK, &words(&[chance.below(4)]), &[peer.stream.as_raw_fd()]),
    }
    pair.receive_queue.kick.signal();
    pair.send_queue.kick.signal();
}

fn hostile(chance: &mut SplitMix64, rig: &mut Rig) {
    let mut peer = Peer::connect(&rig.socket.path());
    let wanted = [0, feature::PACKED, !0, chance.draw()][chance.below(4) as usize];
    peer.negotiate(wanted);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 1 << (3 + chance.below(6)), 2048);
    for _ in 0..chance.below(40) {
        // What it keeps of the rules must not panic the test's own driver.
        if chance.below(4) == 0 && rig.device.outstanding() < 64 {
            let frames: Vec<_> = (0..4).map(|_| rig.frame(&[7; 60], Meta::default())).collect();
            rig.transmit(frames);
        }
        misbehave(chance, &mut peer, &mut pair);
        rig.receive();
        rig.reap();
    }
}

/// A driver that keeps the rules passes a frame each way. Returns the time that it took.
fn next_is_served(rig: &mut Rig, mark: u8) -> Duration {
    let began = Instant::now();
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(!0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 128, 2048);
    pair.post(128);
    let frames = [rig.frame(&[mark; 100], Meta::default())];
    assert_eq!(rig.transmit(frames), 0);
    assert!(pair.send(&peer, &[0; HEADER_BYTES], &[mark; 60], 1));
    let (mut to_guest, mut from_guest) = (false, false);
    while !(to_guest && from_guest) {
        assert!(began.elapsed() < NEXT, "the next driver: {to_guest} {from_guest}, {:?}", rig.errors);
        rig.reap();
        // Frames that waited come before.
        to_guest |= pair.next(&peer).is_some_and(|frame| frame[HEADER_BYTES..] == [mark; 100]);
        from_guest |= rig.receive().iter().any(|(bytes, _)| bytes[..] == [mark; 60]);
    }
    began.elapsed()
}

#[test]
fn drivers_by_chance_are_survived_and_the_next_one_is_served() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, seed) = (number("WHARF_HOSTILE").unwrap_or(40), number("WHARF_SEED").unwrap_or(1));
    let (mut longest, mut told) = (Duration::ZERO, 0);
    let mut rig = Rig::new("chance", 1);
    for run in 0..runs {
        let seed = seed + run;
        println!("WHARF_SEED={seed}");
        hostile(&mut SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), &mut rig);
        told += std::mem::take(&mut rig.errors).len();
        longest = longest.max(next_is_served(&mut rig, run as u8 | 1));
        rig.errors.clear();
    }
    println!("{runs} drivers from seed {seed}: {told} errors told, the next one served within {longest:?}");
    rig.end();
}
