//! Modelled processors, their locks and cache lines: the time that steps take.

use wharf_sim::engine::Random;
use wharf_sim::engine::cache_line::{CacheLine, LineCosts};
use wharf_sim::engine::cpu::{Cpu, Mode, Spent, Tick};
use wharf_sim::engine::lock::{HandedOver, LockCosts, LockKind, SpinLock};

const COSTS: LockCosts = LockCosts { pair_ns: 16, transfer_ns: 60, per_spinner_ns: 10 };

#[test]
fn tickets_are_served_in_order_and_the_price_grows_with_the_spinners() {
    let (mut lock, mut random) = (SpinLock::new(LockKind::Ticket, COSTS), Random::new(1));
    assert_eq!(lock.acquire(0, 0), Some(76), "the line comes from memory");
    assert_eq!((lock.acquire(1, 10), lock.acquire(2, 20), lock.acquire(3, 30)), (None, None, None));
    let handed = |cpu, since_ns, at_ns| Some(HandedOver { cpu, since_ns, at_ns });
    assert_eq!(lock.release(100, &mut random), handed(1, 10, 100 + 76 + 20));
    assert_eq!(lock.release(300, &mut random), handed(2, 20, 300 + 76 + 10));
    assert_eq!(lock.release(500, &mut random), handed(3, 30, 500 + 76));
    assert_eq!(lock.release(600, &mut random), None);
    assert_eq!(lock.acquire(3, 700), Some(16), "still in its cache");
}

#[test]
fn unfair_lock_serves_each_spinner_once() {
    let (mut lock, mut random) = (SpinLock::new(LockKind::Unfair, COSTS), Random::new(3));
    lock.acquire(9, 0);
    (0..8).for_each(|cpu| assert_eq!(lock.acquire(cpu, 0), None));
    let order: Vec<usize> = (1..=8).map(|n| lock.release(n * 1000, &mut random).unwrap().cpu).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!((sorted, lock.spinning().count()), ((0..8).collect(), 0));
    assert_ne!(order, (0..8).collect::<Vec<_>>(), "seed 3 does not happen to serve in order");
}

#[test]
fn ticks_lengthen_work_and_skip_idle_processors() {
    let mut cpu = Cpu::new(Tick { every_ns: 1000, cost_ns: 10 }, 500);
    assert_eq!((cpu.work(0, 499, Mode::System), cpu.take_resched()), (499, false));
    assert_eq!((cpu.work(499, 1, Mode::System), cpu.take_resched()), (510, true));
    assert_eq!(cpu.work(510, 2000, Mode::User), 2530);
    assert_eq!((cpu.work(10_600, 100, Mode::Soft), cpu.take_resched()), (10_700, true));
    assert_eq!((cpu.work(10_700, 100, Mode::Soft), cpu.take_resched()), (10_800, false));
    cpu.lock(10_800, 16, Mode::System);
    cpu.spun(10_816, 10_900, Mode::System);
    let spent = [Mode::User, Mode::System, Mode::Soft].map(|mode| cpu.spent_ns(mode));
    assert_eq!((spent, cpu.locking_ns()), ([2000, 600, 230], 100));
}

#[test]
fn future_work_is_not_spent_yet() {
    let mut cpu = Cpu::new(Tick { every_ns: 1000, cost_ns: 10 }, 500);
    let end_ns = cpu.lock(0, 100, Mode::System);
    assert_eq!((end_ns, cpu.work(end_ns, 600, Mode::System)), (100, 710));
    let spent = |cpu: &Cpu, now_ns| {
        let Spent { modes_ns: [_, system_ns, soft_ns], locking_ns } = cpu.spent_until(now_ns);
        (system_ns, soft_ns, locking_ns)
    };
    assert_eq!([spent(&cpu, 40), spent(&cpu, 400)], [(30, 10, 40), (390, 10, 100)]);
    assert_eq!([spent(&cpu, 710), spent(&cpu, 5000)], [(700, 10, 100); 2]);
    // A softirq of 50 cuts it at 800; it continues afterwards.
    assert_eq!((cpu.work(710, 200, Mode::System), cpu.work(800, 50, Mode::Soft)), (910, 850));
    cpu.goes_on(850, 110, Mode::System);
    assert_eq!([spent(&cpu, 900), spent(&cpu, 960)], [(840, 60, 100), (900, 60, 100)]);
    cpu.spun(960, 1000, Mode::System);
    assert_eq!(spent(&cpu, 990), (930, 60, 130));
}

#[test]
fn without_a_tick_nothing_is_lengthened() {
    let mut cpu = Cpu::new(Tick { every_ns: 0, cost_ns: 10 }, 0);
    assert_eq!((cpu.work(0, 1 << 40, Mode::User), cpu.take_resched()), (1 << 40, false));
}

#[test]
fn transfers_queue_up() {
    let mut line = CacheLine::new(LineCosts { hit_ns: 2, transfer_ns: 50 });
    assert_eq!([line.write(0, 0), line.write(0, 60), line.write(1, 60)], [50, 62, 112]);
    assert_eq!([line.write(2, 61), line.write(1, 70), line.write(1, 300)], [162, 212, 302]);
}
