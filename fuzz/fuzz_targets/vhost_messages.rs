//! vhost-user messages with any descriptors, and virtqueues of any contents in the memory that they bring.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_core::pool::{Cache, PagePool};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

const MEMORY_BYTES: usize = 64 << 10;

struct Rig {
    pool: PagePool,
    cache: Cache,
    memory: View,
    fds: [RawFd; 3],
    _event: EventFd,
}

impl Rig {
    fn new() -> Self {
        let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
        let cache = pool.cache("fuzz").unwrap();
        let area = std::sync::Arc::new(Area::new(Mapping::shared_small_pages(MEMORY_BYTES).unwrap()));
        let event = EventFd::new().unwrap();
        let fds = [area.mapping().unwrap().fd().unwrap().as_raw_fd(), event.as_fd().as_raw_fd(), 0];
        Self { pool, cache, memory: View::new(&area, 0, MEMORY_BYTES).unwrap(), fds, _event: event }
    }
}

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new());
}

fuzz_target!(|input: (Vec<u8>, Vec<(u8, u32, u8, Vec<u8>)>)| {
    let (contents, messages) = input;
    RIG.with_borrow_mut(|rig| {
        rig.memory.copy_in(0, &[0; MEMORY_BYTES]);
        rig.memory.copy_in(0, &contents[..contents.len().min(MEMORY_BYTES)]);
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        for (fds, request, flags, body) in messages.iter().take(64) {
            // Mostly whole messages of existing requests.
            let header = [request % 48, 1 | u32::from(flags & 8), body.len() as u32].map(u32::to_ne_bytes).concat();
            let bytes = [&header[..], body].concat();
            let fds = vec![rig.fds[usize::from(fds % 3)]; usize::from(fds / 3 % 5)];
            if near.send_with_fds(&[&bytes[..]], &fds).is_err() {
                break;
            }
        }
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = wharf_devices::vhost_user::converse(&far, &mut rig.cache, || {});
        assert_eq!(rig.pool.audit().out(), 0);
    });
});
