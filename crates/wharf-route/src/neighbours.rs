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
/// As long as a packet whose neighbour is known may wait for room in its port.
const ROOM: Duration = Duration::from_millis(100);

/// Gives the sender to a thread of its own, which ends with [`Waiting::end`](crate::waiting::Waiting::end).
pub(crate) fn spawn(mut sender: RouteSender) -> io::Result<()> {
    let serve = move || serve(&mut sender);
    thread::Builder::new().name("wharf-route".into()).spawn(serve).map(drop)
}

fn serve(sender: &mut RouteSender) {
    let shared = sender.shared.clone();
    let (mut generation, mut tried) = (0, Instant::now());
    while shared.waiting.rest() {
        let now = shared.tables.generation();
        if now == generation && tried.elapsed() < AGAIN {
            continue;
        }
        (generation, tried) = (now, Instant::now());
        shared.waiting.listed().iter().for_each(|neighbour| serve_one(neighbour, sender));
    }
    sender.cells.lose(Reason::NoNeighbour, shared.waiting.clear());
}

/// Sends what waits for a neighbour, if it has answered, and what comes meanwhile.
fn serve_one(neighbour: &Neighbour, sender: &mut RouteSender) {
    let shared = sender.shared.clone();
    while let Some((mut packets, since)) = shared.waiting.take(neighbour) {
        let taken = packets.len();
        sender.send_held(neighbour, &mut packets, Wait::For(ROOM));
        sender.pass_or_drop(Wait::For(ROOM));
        if since.elapsed() > PATIENCE {
            sender.cells.lose(Reason::NoNeighbour, packets.len());
            packets.clear();
        }
        let is_over = packets.is_empty();
        shared.waiting.put_back(neighbour, taken, packets);
        if !is_over {
            break;
        }
    }
}
