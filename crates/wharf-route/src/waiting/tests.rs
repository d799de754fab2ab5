//! The bound of all packets that wait.

use super::{Held, Waiting};
use crate::counts::Cells;
use crate::reason::Reason;
use std::sync::Arc;
use wharf::{Packet, PagePool};
use wharf_net::Query;

const POOL_FRAMES: u32 = 128;
/// Frames of a super-packet of 16 pieces behind its headers.
const FRAMES: usize = 17;

fn packet(pool: &PagePool, frames: usize) -> Packet {
    let mut packet = pool.packet(100).expect("memory");
    for _ in 1..frames {
        packet.append(pool.packet(100).expect("memory")).expect("a chain");
    }
    packet
}

fn held(packet: Packet, cells: &Arc<Cells>) -> Held {
    Held { packet, query: Query::to([10, 0, 0, 1].into()), cells: cells.clone() }
}

#[test]
fn super_packets_that_wait_take_a_quarter_of_the_pool_at_most() {
    let pool = PagePool::builder().frames(POOL_FRAMES).build().expect("a pool");
    let (waiting, cells) = (Waiting::new(POOL_FRAMES), Arc::new(Cells::default()));
    let held_frames = || POOL_FRAMES as usize - pool.free();
    for host in 1..=6 {
        waiting.push((1, [10, 0, 0, host].into()), held(packet(&pool, FRAMES), &cells));
        assert!(held_frames() <= POOL_FRAMES as usize / 4, "{} of {POOL_FRAMES}", held_frames());
    }
    assert_eq!((waiting.len(), cells.drops().collect::<Vec<_>>()), (1, vec![(Reason::NoNeighbour, 5)]));
    for host in 11..=14 {
        waiting.push((1, [10, 0, 0, host].into()), held(packet(&pool, 4), &cells));
    }
    assert_eq!(held_frames(), 16, "the largest went for the others");
}

#[test]
fn what_the_thread_has_counts_until_it_has_gone() {
    let pool = PagePool::builder().frames(POOL_FRAMES).build().expect("a pool");
    let (waiting, cells) = (Waiting::new(POOL_FRAMES), Arc::new(Cells::default()));
    let neighbours = [(1, [10, 0, 0, 1].into()), (1, [10, 0, 0, 2].into())];
    waiting.push(neighbours[0], held(packet(&pool, FRAMES), &cells));
    let (packets, _) = waiting.take(&neighbours[0]).expect("packets");
    waiting.push(neighbours[1], held(packet(&pool, FRAMES), &cells));
    assert_eq!(waiting.len(), 1, "the second had no room");
    waiting.put_back(&neighbours[0], packets);
    assert_eq!(waiting.len(), 1);
    let (packets, _) = waiting.take(&neighbours[0]).expect("packets");
    drop(packets);
    waiting.put_back(&neighbours[0], Default::default());
    assert_eq!((waiting.len(), pool.free()), (0, POOL_FRAMES as usize));
    waiting.push(neighbours[1], held(packet(&pool, FRAMES), &cells));
    assert_eq!(waiting.len(), 1, "there is room again");
}
