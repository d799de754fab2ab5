//! A back end that punches holes into memory on huge pages while none is free: an access there raises `SIGBUS`.

use super::pair::{Far, Socket, send};
use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_devices::vhost_user::install_sigbus_handler;
use wharf_testkit::assert_conserved;

const NAME: &str = "virtio_user::holes::back_end_that_punches_holes_loses_its_connection";
const WORD: &str = "WHARF_TEST_HOLES";
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
const ALL_HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Descriptors of this process that are memory for frames.
fn memory() -> BTreeSet<PathBuf> {
    let all = read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_memory = |path: &PathBuf| {
        read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:wharf-region"))
    };
    all.filter(is_memory).collect()
}

fn frees_all(path: &Path) {
    let own = path.to_string_lossy().replace("self", &std::process::id().to_string());
    let length = HUGE_PAGE_BYTES.to_string();
    let run = Command::new("fallocate").args(["--punch-hole", "--length", &length, &own]).status();
    assert!(run.unwrap().success());
}

#[test]
#[ignore = "wants root"]
fn back_end_that_punches_holes_loses_its_connection() {
    if std::env::var_os(WORD).is_some() {
        return punch();
    }
    let before = read_to_string(HUGE_PAGES).unwrap();
    // Pages beyond `before` may be in use, and are kept by files of a program that has ended. They count first.
    let more = read_to_string(ALL_HUGE_PAGES).unwrap().trim().parse::<u32>().unwrap() + 4;
    write(HUGE_PAGES, more.to_string()).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    let ran = again.args(["--ignored", "--exact", NAME]).env(WORD, &before).output().unwrap();
    write(HUGE_PAGES, before).unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

fn punch() {
    install_sigbus_handler().unwrap();
    let socket = Socket::new();
    let mut far = Far::new(&socket, 1);
    let pool = PagePool::builder().frames(512).huge_pages(true).build().unwrap();
    let device = open(&socket.driver(""), Direction::Send).unwrap().device;
    let before = memory();
    let queue = TxQueue::builder_of(&pool, device, Arc::new(HostClock), Arc::new(HostPark));
    let queue = queue.unwrap().build().unwrap();
    let mut sender = queue.sender("test").unwrap();
    assert_eq!((send(&mut sender, 1, 60), far.receive_all()), (1, 1));
    let shared = memory();
    // Frames, and rings on small pages, which such a hole leaves zeroed.
    let files: Vec<_> = shared.difference(&before).filter(|path| is_on_huge_pages(path)).collect();
    assert!(!files.is_empty(), "no huge page was to be had");
    let (mut sent, started) = (1, Instant::now());
    while queue.counters().lost.get() == 0 {
        assert!(started.elapsed() < Duration::from_secs(30), "no access has met a hole");
        // An access before the next line fills a hole with a page that is still free: then it is punched again.
        files.iter().for_each(|path| frees_all(path));
        // Those that are free, the holes' included, are no more.
        write(HUGE_PAGES, "0").unwrap();
        sent += send(&mut sender, 1, 60) as u64;
        queue.poll();
    }
    let told = queue.counters().last_error().unwrap();
    assert!(told.contains("the back end has punched holes into the memory for frames"), "{told}");
    drop(sender);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(&queue);
    assert_eq!(queue.counters().sent.get() + queue.counters().failed.get(), sent);
    far.end();
}

fn is_on_huge_pages(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blksize() as usize == HUGE_PAGE_BYTES
}
