//! The wharf binary.
fn main() {}
