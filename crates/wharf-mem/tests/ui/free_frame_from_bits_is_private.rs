fn main() {
    let _ = wharf_mem::FreeFrame::from_bits(1);
}
