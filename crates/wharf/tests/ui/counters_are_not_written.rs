fn main() {
    let path = wharf::Port::open("null", wharf::Direction::Send).unwrap();
    let counters = path.queue().unwrap().counters();
    counters.sent.set(0);
    counters.failed.add(1);
}
