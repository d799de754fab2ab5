//! The thread that sends what waits for neighbours, as they answer.

use crate::reason::Reason;
use crate::sender::RouteSender;
use crate::waiting::Neighbour;
use std::io;
use std::thread;
use std::time::{Duration, Instant};
use wharf::Wait;

/// The kernel asks three times, a second apart, and says that it has failed. This is for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which a neighbour is tried again, though the tables have not changed.
const AGAIN: Duration = Duration::from_millis(100);
/// As long as the packets of a neighbour that has answered may wait for room in their port.
const ROOM: Duration = Duration::from_millis(100);

/// Gives the sender to a thread of its own, which ends with [`Waiting::end`](crate::waiting::Waiting::end).
pub(crate) fn spawn(mut sender: RouteSender) -> io::Result<()> {
    let serve = move || serve(&mut sender);
    thread::Builder::new().name("wharf-route".into()).spawn(serve).map(drop)
}

fn serve(sender: &mut RouteSender) {
    let shared = sender.ways.shared.clone();
    let (mut generation, mut tried) = (0, Instant::now());
    while shared.waiting.rest() {
        let now = shared.tables.generation();
        if now == generation && tried.elapsed() < AGAIN {
            continue;
        }
        (generation, tried) = (now, Instant::now());
        for neighbour in shared.waiting.listed() {
            if shared.waiting.is_over() {
                break;
            }
            // What has come meanwhile goes in the next round, after the others.
            if serve_one(&neighbour, sender) {
                generation = 0;
            }
        }
    }
}

/// Sends what waits for a neighbour, if it has answered. Returns true if it has.
fn serve_one(neighbour: &Neighbour, sender: &mut RouteSender) -> bool {
    let shared = sender.ways.shared.clone();
    let Some((mut packets, since)) = shared.waiting.take(neighbour) else { return false };
    let room = Wait::Until(Instant::now() + ROOM);
    sender.send_held(neighbour, since, &mut packets, room);
    sender.flush_or_drop(room);
    if since.elapsed() > PATIENCE {
        packets.drain(..).for_each(|held| held.drop_for(Reason::NoNeighbour));
    }
    let is_sent = packets.is_empty();
    shared.waiting.put_back(neighbour, packets);
    is_sent
}
