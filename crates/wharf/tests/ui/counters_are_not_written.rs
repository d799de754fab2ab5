fn main() {
    let path = wharf::Path::open("null", wharf::Direction::Send).unwrap();
    let counters = path.queue().unwrap().counters();
    counters.sent.set(0);
    counters.failed.add(1);
}
