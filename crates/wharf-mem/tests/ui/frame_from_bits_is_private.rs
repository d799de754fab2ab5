fn main() {
    let _ = wharf_mem::Frame::from_bits(1);
}
