//! The pool that a port makes for its device.

use wharf::device::{Kind, Opened, Registry};
use wharf::{Direction, PagePool, Port};
use wharf_devices::null::Null;
use wharf_devices::spec::QueueLayout;

static KIND: Kind = Kind {
    queues: QueueLayout::Devices,
    ..Kind::new("asks", "asks", "wants large frames", |_, opening| {
        let ask = |number| Opened { frame_bytes: Some(2560 + 64 * number), ..Opened::tx(Null::default()) };
        Ok((0..opening.queues.max(1)).map(ask).collect())
    })
};

#[test]
fn default_pool_has_frames_as_large_as_the_device_asks_for() {
    let asks = || Port::builder("asks", Direction::Send).registry(Registry::default().with(&KIND).unwrap());
    let frame = |port: &Port| (port.pool().frames(), port.pool().region().spec().frame_bytes);
    assert_eq!(frame(&asks().build().unwrap()), (4096, 2560));
    let queues = asks().build_queues(3, |queue, _| queue).unwrap();
    assert_eq!(frame(&queues[1]), (3 * 4096, 2560 + 2 * 64));
    let pool = PagePool::builder().frames(64).build().unwrap();
    assert_eq!(frame(&asks().pool(&pool).build().unwrap()), (64, 2048), "the program's own");
    assert_eq!(frame(&Port::open("null", Direction::Send).unwrap()), (4096, 2048));
}
