fn main() {
    let _ = wharf_mem::Frame::NONE;
}
