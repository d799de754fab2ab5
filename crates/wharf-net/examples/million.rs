//! A lookup in a million routes: time and memory of the dump, time of a lookup, of a repeat, of updates.
//! `bench/net.sh` runs it in a network namespace with that many routes.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;
use wharf_net::{Cache, Mirror, Query, Tables};

const BATCHES: usize = 4001;
const BATCH: usize = 64;

/// Numbers by xorshift, the same in every run.
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Draws an address of the family, of a route's range.
    fn address(&mut self, v6: bool) -> IpAddr {
        let number = self.number();
        match v6 {
            false => IpAddr::V4(((16 << 24) + number as u32 % (200 << 24)).into()),
            true => {
                IpAddr::V6((0x2a << 120 | u128::from(number) << 56 | u128::from(self.number() >> 8)).into())
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let started = Instant::now();
    let mut mirror = Mirror::open()?;
    let tables = mirror.tables();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [how, lookups] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        count(tables, how == "together", lookups.parse().unwrap_or(0));
        return Ok(());
    }
    println!(
        "dump: {:?}, prefixes {:?}, resident {} MiB",
        started.elapsed(),
        tables.prefixes(),
        resident_mib()
    );
    for v6 in [false, true] {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let mut draw = Draw(46);
        let found = (0..BATCH).filter(|_| tables.lookup(&Query::to(draw.address(v6))).is_ok()).count();
        println!("{family}: {found} of {BATCH} random destinations have a route");
        let ns = median(v6, 1, |query| _ = black_box(tables.lookup(query)));
        println!("{family}: lookup {ns:.1} ns");
        for burst in [1, 64, 4096] {
            let mut cache = Cache::new(tables.clone());
            let ns = median(v6, burst, |query| _ = black_box(cache.lookup(query)));
            println!("{family}: through a cache, in bursts of {burst} {ns:.2} ns");
        }
        let mut cache = Cache::new(tables.clone());
        let ns = of_batches(v6, BATCH, |queries| cache.lookup_all(queries, |_, hop| _ = black_box(hop)));
        println!("{family}: through a cache, {BATCH} destinations together {ns:.1} ns");
    }
    if let Some(seconds) = arguments.first().and_then(|text| text.parse().ok()) {
        follow(&mut mirror, seconds)?;
    }
    Ok(())
}

/// Looks up random destinations through a cache, one by one or in bursts.
fn count(tables: Tables, together: bool, lookups: usize) {
    let (mut cache, mut draw) = (Cache::new(tables), Draw(46));
    let began = Instant::now();
    if together {
        for _ in 0..lookups / BATCH {
            let batch: [_; BATCH] = std::array::from_fn(|_| Query::to(draw.address(false)));
            cache.lookup_all(&batch, |_, hop| _ = black_box(hop));
        }
    } else {
        (0..lookups).for_each(|_| _ = black_box(cache.lookup(&Query::to(draw.address(false)))));
    }
    println!("{:.1} ns a lookup", began.elapsed().as_nanos() as f64 / lookups.max(1) as f64);
}

/// Returns the median time of a lookup, each of another destination, or `burst` times in a row.
fn median(v6: bool, burst: usize, mut call: impl FnMut(&Query)) -> f64 {
    of_batches(v6, (BATCH / burst).max(1), |queries| {
        for query in queries {
            (0..burst).for_each(|_| call(black_box(query)));
        }
    }) / burst as f64
}

/// Returns the median time of a query, over batches of so many, each short beside what the machine does else.
fn of_batches(v6: bool, queries: usize, mut all: impl FnMut(&[Query])) -> f64 {
    let mut draw = Draw(46);
    let mut times: Vec<_> = (0..BATCHES)
        .map(|_| {
            let batch: Vec<_> = (0..queries).map(|_| Query::to(draw.address(v6))).collect();
            let started = Instant::now();
            all(black_box(&batch));
            started.elapsed().as_nanos() as f64 / queries as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Follows updates for a while: how long a turn takes, and what it costs.
fn follow(mirror: &mut Mirror, seconds: u64) -> std::io::Result<()> {
    let (started, tables) = (Instant::now(), mirror.tables());
    let (mut turns, mut busy, mut longest) = (0, std::time::Duration::ZERO, std::time::Duration::ZERO);
    while started.elapsed().as_secs() < seconds {
        mirror.wait(std::time::Duration::from_millis(100), None)?;
        let began = Instant::now();
        turns += u32::from(mirror.turn()?);
        busy += began.elapsed();
        longest = longest.max(began.elapsed());
    }
    let share = busy.as_secs_f64() / started.elapsed().as_secs_f64() * 100.0;
    println!(
        "updates: {turns} turns in {seconds} s, {share:.1} % of a processor, the longest {longest:?}, overruns {}, prefixes {:?}",
        tables.overruns(),
        tables.prefixes()
    );
    Ok(())
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
