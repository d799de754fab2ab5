//! quick
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wharf::devices::host::{HostClock, HostPark};
use wharf::devices::null::Null;
use wharf::pool::PagePool;
use wharf::queue::TxQueue;

fn pool() -> PagePool {
    PagePool::builder().frames(65535).clock(Arc::new(HostClock)).build().unwrap()
}

fn main() {
    let secs = Duration::from_millis(700);
    let frame = [1u8; 64];
    for burst in [1usize, 8, 32, 64] {
        // lane
        let pool = pool();
        let q = TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark)).build().unwrap();
        let mut s = q.sender("s").unwrap();
        let mut b = s.burst(64);
        let start = Instant::now();
        let mut n = 0u64;
        while start.elapsed() < secs {
            for _ in 0..256 {
                s.fill(&mut b, burst, 64).unwrap();
                for bytes in b.iter_mut() {
                    bytes.copy_from_slice(&frame);
                }
                s.send(&mut b).unwrap();
                n += burst as u64;
            }
        }
        println!("lane burst={burst} {:.1} Mpps ppd {:.1} bql {}", n as f64 / start.elapsed().as_secs_f64() / 1e6, q.counters().packets_per_doorbell(), q.counters().bql_limit_bytes.get());
        drop(s);
        let audit = q.shutdown(u64::MAX);
        assert_eq!(audit.out(), 0, "{audit}");
    }
    for burst in [1usize, 8, 32, 64] {
        let pool = pool();
        let mut q = TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark)).build_direct().unwrap();
        let mut b = q.burst(64);
        let start = Instant::now();
        let mut n = 0u64;
        while start.elapsed() < secs {
            for _ in 0..256 {
                q.fill(&mut b, burst, 64).unwrap();
                for bytes in b.iter_mut() {
                    bytes.copy_from_slice(&frame);
                }
                q.send(&mut b).unwrap();
                n += burst as u64;
            }
        }
        println!("direct burst={burst} {:.1} Mpps", n as f64 / start.elapsed().as_secs_f64() / 1e6);
        let audit = q.close();
        assert_eq!(audit.out(), 0, "{audit}");
    }
    for burst in [1usize, 8, 32, 64] {
        let pool = pool();
        let q = TxQueue::builder(&pool, Box::new(Null::default()), Arc::new(HostClock), Arc::new(HostPark)).build().unwrap();
        let mut s = q.sender("s").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let n = std::thread::scope(|scope| {
            let st = stop.clone();
            let t = scope.spawn(move || {
                wharf::devices::host::pin(1);
                let mut b = s.burst(64);
                while !st.load(Ordering::Relaxed) {
                    if s.fill(&mut b, burst, 64).is_err() { continue; }
                    for bytes in b.iter_mut() {
                        bytes.copy_from_slice(&frame);
                    }
                    s.send(&mut b).unwrap();
                }
            });
            wharf::devices::host::pin(0);
            let mut d = q.dedicate().unwrap();
            let start = Instant::now();
            let mut n = 0u64;
            while start.elapsed() < secs {
                for _ in 0..64 { n += u64::from(d.poll()); }
            }
            let r = n as f64 / start.elapsed().as_secs_f64() / 1e6;
            stop.store(true, Ordering::Relaxed);
            while !t.is_finished() { d.poll(); }
            t.join().unwrap();
            drop(d);
            r
        });
        println!("two-core burst={burst} {:.1} Mpps ppd {:.1}", n, q.counters().packets_per_doorbell());
        let audit = q.shutdown(u64::MAX);
        assert_eq!(audit.out(), 0, "{audit}");
    }
}
