//! Driver against device.

use super::pair::{LAYOUTS, STRIDE, all_options, buffers, device, driver, extent, place};
use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_devices::virtio::{Chain, DeviceRing, DriverRing, Extent, Layout, Memory, Options, Token, Used};

#[test]
fn chains_arrive_in_order_round_after_round() {
    for layout in LAYOUTS {
        for options in all_options() {
            for (size, index) in [(1, 65534), (2, 65530), (8, 65500), (256, 65000)] {
                round_and_round(layout, options, size, index);
            }
        }
    }
}

/// One batch after the other, of every size that fits, until indices have wrapped.
fn round_and_round(layout: Layout, options: Options, size: u16, index: u16) {
    let (memory, view) = buffers();
    let place = place(layout, size);
    let (mut driver, mut device) = (driver(&place, options, index), device(&place, options, index));
    let mut chain = Chain::new();
    // Enough for indices to wrap.
    for round in 0..40 + 600 / u32::from(size) {
        let count = 1 + round % u32::from(size);
        let mut ids = VecDeque::new();
        for n in 0..count {
            let at = n % 64 * STRIDE;
            view.store_u32(at as usize, round + n);
            ids.push_back(driver.add(&[extent(at, 4)], &[]).unwrap());
            assert!(!device.pop(&memory, &mut chain).unwrap(), "nothing is seen before it is published");
        }
        assert!(driver.publish() && !driver.publish());
        for n in 0..count {
            assert!(device.pop(&memory, &mut chain).unwrap());
            let mut bytes = [0; 4];
            assert_eq!((chain.copy_out(&memory, 0, &mut bytes), chain.readable_bytes()), (4, 4));
            if n < 64 {
                assert_eq!(u32::from_ne_bytes(bytes) % 64, (round + n + (count - 1 - n) / 64 * 64) % 64);
            }
            device.put_used(chain.token(), 0);
            assert_eq!(driver.next_used().unwrap(), None);
        }
        assert!(!device.pop(&memory, &mut chain).unwrap());
        assert!(device.publish() && !device.publish());
        while let Some(used) = driver.next_used().unwrap() {
            assert_eq!((Some(used.id), used.written_bytes), (ids.pop_front(), 0));
        }
        assert_eq!((ids.len(), driver.room(), driver.outstanding()), (0, size, 0));
    }
}

#[test]
fn a_full_ring_takes_no_more_and_chains_need_room_for_all_of_them() {
    for layout in LAYOUTS {
        let place = place(layout, 4);
        let mut driver = driver(&place, Options::default(), 0);
        let part = extent(0, 1);
        assert_eq!(driver.add(&[], &[]), None);
        assert!(driver.add(&[part; 5], &[]).is_none() && driver.add(&[part; 3], &[part]).is_some());
        assert!(driver.add(&[part], &[]).is_none());
        assert_eq!((driver.room(), driver.outstanding(), driver.size()), (0, 1, 4));
    }
}

#[test]
fn unpopped_buffers_are_popped_again() {
    for layout in LAYOUTS {
        let (memory, _) = buffers();
        let place = place(layout, 5 + u16::from(layout == Layout::Split) * 3);
        let (mut driver, mut device) =
            (driver(&place, Options::default(), 0), device(&place, Options::default(), 0));
        let mut chain = Chain::new();
        for round in 0..40 {
            let parts = [extent(0, 8), extent(64, 8)];
            let first = driver.add(&parts[..1 + round % 2], &[]).unwrap();
            let second = driver.add(&[], &parts[..1 + round / 2 % 2]).unwrap();
            driver.publish();
            let base = device.next_avail();
            let popped: Vec<Token> =
                (0..2).map(|_| device.pop(&memory, &mut chain).map(|_| chain.token()).unwrap()).collect();
            popped.iter().rev().for_each(|token| device.undo_pop(*token));
            assert_eq!(device.next_avail(), base);
            for expected in [first, second] {
                assert!(device.pop(&memory, &mut chain).unwrap());
                device.put_used(chain.token(), chain.writable_bytes());
                device.publish();
                let written_bytes = chain.writable_bytes();
                assert_eq!(driver.next_used().unwrap(), Some(Used { id: expected, written_bytes }));
            }
        }
    }
}

/// Both sides of a ring of eight, and the chains that the device has popped.
struct Told {
    memory: Memory,
    driver: Box<dyn DriverRing>,
    device: Box<dyn DeviceRing>,
    popped: VecDeque<Token>,
}

impl Told {
    fn new(layout: Layout, options: Options) -> Self {
        let place = place(layout, 8);
        let (driver, mut device) = (driver(&place, options, 65530), device(&place, options, 65530));
        // The first time it calls in any case.
        device.needs_notification();
        Self { memory: buffers().0, driver, device, popped: VecDeque::new() }
    }

    /// Makes buffers available; whether the device wants to be told.
    fn put(&mut self, count: usize) -> bool {
        (0..count).for_each(|_| assert!(self.driver.add(&[extent(0, 1)], &[]).is_some()));
        self.driver.publish();
        self.driver.needs_kick()
    }

    fn pop(&mut self, count: usize) {
        let mut chain = Chain::new();
        for _ in 0..count {
            assert!(self.device.pop(&self.memory, &mut chain).unwrap());
            self.popped.push_back(chain.token());
        }
    }

    /// Uses buffers; whether the driver wants to be told.
    fn use_up(&mut self, count: usize) -> bool {
        self.popped.drain(..count).for_each(|token| self.device.put_used(token, 0));
        self.device.publish();
        self.device.needs_notification()
    }

    fn take_back(&mut self, count: usize) {
        (0..count).for_each(|_| assert!(self.driver.next_used().unwrap().is_some()));
    }
}

#[test]
fn notification_comes_only_if_asked_for() {
    for (layout, event_idx) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let mut told = Told::new(layout, Options { event_idx, ..Options::default() });
        for round in 0..40 {
            assert!(told.device.enable_notification() && told.put(3), "{layout} {event_idx} {round}");
            assert!(!told.driver.needs_kick(), "once");
            assert!(!told.device.enable_notification(), "there is something: look again");
            told.device.disable_notification();
            told.pop(3);
            // An event index says when, not whether: it was passed, and is not passed again soon.
            assert!(!told.put(1));
            told.pop(1);
            assert!(told.driver.enable_notification() && told.use_up(1) && !told.device.needs_notification());
            assert!(!told.driver.enable_notification(), "there is something: look again");
            told.driver.disable_notification();
            assert!(!told.use_up(1));
            told.take_back(2);
            told.use_up(2);
            told.take_back(2);
        }
    }
}

#[test]
fn a_delayed_notification_comes_when_three_quarters_are_back() {
    for layout in LAYOUTS {
        let mut told = Told::new(layout, Options { event_idx: true, ..Options::default() });
        for round in 0..40 {
            told.put(8);
            told.pop(8);
            assert!(told.driver.enable_notification_delayed(), "{layout} {round}");
            for at in 0..8 {
                assert_eq!(told.use_up(1), at == 6, "{layout} {round}: {at}");
            }
            assert!(!told.driver.enable_notification_delayed());
            told.take_back(8);
        }
    }
}

#[test]
fn in_order_index_is_enough_without_writable_buffers() {
    let place = place(Layout::Split, 8);
    let [_, _, used] = place.areas();
    let mut driver = driver(&place, Options { in_order: true, ..Options::default() }, 0);
    let mut add = |readable: &[Extent], writable: &[Extent]| {
        let id = driver.add(readable, writable).unwrap();
        driver.publish();
        id
    };
    let (first, second) = (add(&[extent(0, 8)], &[]), add(&[extent(8, 8)], &[]));
    // The device uses a batch by one entry (section 2.7.9), which need not be read.
    used.store_u16(2, 2);
    assert_eq!(driver.next_used(), Ok(Some(Used { id: first, written_bytes: 0 })));
    // A chain added meanwhile is behind that batch.
    let third = driver.add(&[], &[extent(16, 8)]).unwrap();
    driver.publish();
    assert_eq!(driver.next_used(), Ok(Some(Used { id: second, written_bytes: 0 })));
    assert_eq!(driver.next_used(), Ok(None));
    used.store_u32(4 + 2 * 8, third.into());
    used.store_u32(4 + 2 * 8 + 4, 5);
    used.store_u16(2, 3);
    assert_eq!(driver.next_used(), Ok(Some(Used { id: third, written_bytes: 5 })));
    assert_eq!((driver.room(), driver.outstanding()), (8, 0));
}

/// One step of a random run.
#[derive(Debug, Clone)]
enum Step {
    /// Adds a buffer of so many parts to be read and to be written.
    Add(usize, usize),
    Publish,
    /// Pops and uses so many.
    Serve(usize),
    Reap(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4usize, 0..4usize).prop_map(|(readable, writable)| Step::Add(readable, writable)),
        2 => Just(Step::Publish),
        2 => (1..6usize).prop_map(Step::Serve),
        2 => (1..6usize).prop_map(Step::Reap),
    ];
    proptest::collection::vec(step, 1..400)
}

/// Both sides, and the state that each buffer should have.
struct Model {
    told: Told,
    /// Added, published or not, in order: number, bytes to be read, to be written.
    added: VecDeque<(u16, u32, u32)>,
    published: usize,
    /// Used, in order: number and bytes written.
    used: VecDeque<(u16, u32)>,
    serial: u32,
}

impl Model {
    fn add(&mut self, readable: usize, writable: usize) {
        self.serial += 1;
        let part = |n: usize| extent(n as u32 * STRIDE, 1 + (self.serial + n as u32) % 100);
        let readable: Vec<Extent> = (0..readable).map(part).collect();
        let writable: Vec<Extent> = (8..8 + writable).map(part).collect();
        let count = readable.len() + writable.len();
        let fits = count > 0 && count <= self.told.driver.room().into();
        let bytes = |parts: &[Extent]| parts.iter().map(|part| part.len_bytes).sum();
        let id = self.told.driver.add(&readable, &writable);
        assert_eq!(id.is_some(), fits);
        self.added.extend(id.map(|id| (id, bytes(&readable), bytes(&writable))));
    }

    fn serve(&mut self, count: usize) {
        let mut chain = Chain::new();
        for _ in 0..count {
            let popped = self.told.device.pop(&self.told.memory, &mut chain).unwrap();
            assert_eq!(popped, self.published > 0);
            if !popped {
                return;
            }
            self.published -= 1;
            let (id, readable, writable) = self.added.pop_front().unwrap();
            assert_eq!((chain.readable_bytes(), chain.writable_bytes()), (readable, writable));
            let written = writable.saturating_sub(id.into());
            self.told.device.put_used(chain.token(), written);
            self.used.push_back((id, written));
        }
        self.told.device.publish();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Add(readable, writable) => self.add(*readable, *writable),
            Step::Publish => {
                assert_eq!(self.told.driver.publish(), self.published < self.added.len());
                self.published = self.added.len();
            }
            Step::Serve(count) => {
                self.serve(*count);
                self.told.device.publish();
            }
            Step::Reap(count) => {
                for _ in 0..*count {
                    let used = self.told.driver.next_used().unwrap();
                    let expected =
                        self.used.pop_front().map(|(id, written_bytes)| Used { id, written_bytes });
                    assert_eq!(used, expected);
                }
            }
        }
        assert_eq!(usize::from(self.told.driver.outstanding()), self.added.len() + self.used.len());
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_reordered(
        steps in steps(), packed: bool, size in 0..6u32, index: u16, event_idx: bool, in_order: bool,
    ) {
        let layout = if packed { Layout::Packed } else { Layout::Split };
        // Packed rings may have any number.
        let size = if packed { (1u16 << size) + size as u16 } else { 1 << size };
        let place = place(layout, size);
        let options = Options { event_idx, in_order, indirect: false };
        let (driver, device) = (driver(&place, options, index), device(&place, options, index));
        let told = Told { memory: buffers().0, driver, device, popped: VecDeque::new() };
        let mut model = Model { told, added: VecDeque::new(), published: 0, used: VecDeque::new(), serial: 0 };
        steps.iter().for_each(|step| model.step(step));
        // And all of it comes back.
        for step in [Step::Publish, Step::Serve(100), Step::Reap(model.added.len() + model.used.len())] {
            model.step(&step);
        }
        assert_eq!((model.told.driver.outstanding(), model.told.driver.room()), (0, size));
    }
}
