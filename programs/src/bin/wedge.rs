//! Senders while the ground moves. `wedge INTERFACE PEER`, as root, with both ends of a veth: it takes them down, changes
//! their MTU and deletes them, under the feet of two senders that wait and one that drops.
//!
//! - Each call that may wait has a deadline: packets that are left by then stay in the burst, for the next try.
//! - `QueueCounters` tell what happened: packets failed by reason, and the device's last error.
//! - A device that is gone stays gone. The pool outlives it: a new path over it sends at once.
//! - Whatever happens, each packet is counted once, and all memory comes home.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wharf::{Direction, PagePool, Port, Wait};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The longest wait of a call, and what a busy machine may add to it.
const DEADLINE: Duration = Duration::from_millis(500);
const GRACE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, interface, peer] = &arguments[..] else { return Err("usage: wedge INTERFACE PEER".into()) };
    let pool = PagePool::builder().build()?;
    let open = || Port::builder(&format!("xdp:{interface}"), Direction::Send).pool(&pool).build();
    let path = open()?;
    under_load(&path, || {
        on_its_feet(&path, "at first")?;
        for (what, commands) in [
            ("link down and up", [format!("set {interface} down"), format!("set {interface} up")]),
            ("peer down and up", [format!("set {peer} down"), format!("set {peer} up")]),
            ("MTU 100 and 1500", [format!("set {interface} mtu 100"), format!("set {interface} mtu 1500")]),
        ] {
            ip(&commands[0])?;
            thread::sleep(Duration::from_millis(200));
            ip(&commands[1])?;
            on_its_feet(&path, what)?;
        }
        ip(&format!("del {interface}"))?;
        thread::sleep(Duration::from_secs(1));
        Ok(())
    })?;
    settle(&path)?;
    if path.queue()?.counters().lost.get() == 0 {
        return Err("the device does not tell that its interface is gone".into());
    }

    ip(&format!("add {interface} type veth peer name {peer}"))?;
    ip(&format!("set {interface} up"))?;
    ip(&format!("set {peer} up"))?;
    let again = open()?;
    under_load(&again, || on_its_feet(&again, "deleted, made again, opened again"))?;
    settle(&again)?;

    // The far end is not read: nothing completes, as with an adapter that hangs, until it is pulled out.
    let stuck = Port::builder("wire", Direction::Send).pool(&pool).build()?;
    let far_end = stuck.far_end()?;
    under_load(&stuck, || {
        thread::sleep(4 * DEADLINE);
        Ok(())
    })?;
    drop(far_end);
    settle(&stuck)
}

/// Runs `steps` while two senders wait and one drops. Fails if a call takes longer than its deadline.
fn under_load(path: &Port, steps: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let calls = [
            ("waits 1", wait_and_send as fn(&Port, &str, &AtomicBool) -> _),
            ("waits 2", wait_and_send),
            ("drops", drop_or_send),
        ];
        let threads = calls.map(|(name, send)| scope.spawn(move || send(path, name, stop)));
        let done = steps();
        stop.store(true, Relaxed);
        for thread in threads {
            let longest: Duration = thread.join().map_err(|_| "a sender panicked")??;
            if longest > DEADLINE + GRACE {
                return Err(format!("a call took {longest:?}").into());
            }
        }
        done
    })
}

/// Sends by calls that wait. Returns the longest.
fn wait_and_send(path: &Port, name: &str, stop: &AtomicBool) -> Result<Duration, Error> {
    let (mut sender, mut longest) = (path.sender(name)?, Duration::ZERO);
    let mut burst = sender.burst(32);
    while !stop.load(Relaxed) {
        let mut began = Instant::now();
        sender.fill(&mut burst, 32, 200, DEADLINE)?;
        longest = longest.max(began.elapsed());
        burst.iter_mut().for_each(|packet| packet.fill(0xff));
        began = Instant::now();
        _ = sender.send(&mut burst, DEADLINE)?;
        longest = longest.max(began.elapsed());
    }
    Ok(longest)
}

/// Sends by calls that drop in place of waiting. Returns the longest.
fn drop_or_send(path: &Port, name: &str, stop: &AtomicBool) -> Result<Duration, Error> {
    let (mut sender, mut longest) = (path.sender(name)?, Duration::ZERO);
    let mut burst = sender.burst(32);
    while !stop.load(Relaxed) {
        let began = Instant::now();
        sender.fill(&mut burst, 32, 200, Wait::Never)?;
        burst.iter_mut().for_each(|packet| packet.fill(0xff));
        _ = sender.send_or_drop(&mut burst, Wait::Never)?;
        longest = longest.max(began.elapsed());
        thread::sleep(Duration::from_micros(200));
    }
    Ok(longest)
}

/// Waits until packets leave.
fn on_its_feet(path: &Port, what: &str) -> Result<(), Error> {
    let (counters, until) = (path.queue()?.counters(), Instant::now() + Duration::from_secs(5));
    let before = counters.sent.get();
    while counters.sent.get() < before + 1000 {
        if Instant::now() > until {
            return Err(format!("{what}: nothing leaves: {:?}", counters.last_error()).into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    println!("{what}: packets leave; failed so far: {:?}", counters.failures());
    Ok(())
}

/// Closes the path, whatever it has inside, and checks that each packet was counted and all memory is home.
fn settle(path: &Port) -> Result<(), Error> {
    let (audit, counters) = (path.close(DEADLINE), path.queue()?.counters());
    println!("{} accepted; {:?}; {audit}", counters.accepted.get(), counters.last_error());
    if counters.gone() != counters.accepted.get() || audit.out() > 0 {
        return Err(format!("{} gone, {audit}", counters.gone()).into());
    }
    Ok(())
}

fn ip(command: &str) -> Result<(), Error> {
    match Command::new("ip").arg("link").args(command.split(' ')).status()?.success() {
        true => Ok(()),
        false => Err(format!("ip link {command}").into()),
    }
}
