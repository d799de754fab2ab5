fn main() {
    let _ = wharf_mem::FreeFrame::new(1, 1);
}
