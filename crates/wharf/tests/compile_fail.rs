//! Safe code of a user cannot change what the path counts, nor move frames between pools.
//!
//! Each file in `ui/` tries one way. None may compile.

#[test]
fn users_write_no_counter_and_swap_no_frames() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
