//! The guides and the README: `cargo test` compiles and runs their Rust programs as a user's crate would, with `wharf` as the only
//! dependency.
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/adding-a-device.md")]
    mod adding_a_device {}
    #[doc = include_str!("../../../docs/adding-a-qdisc.md")]
    mod adding_a_qdisc {}
    #[doc = include_str!("../../../docs/library/gso.md")]
    mod gso {}
    #[doc = include_str!("../../../docs/library/headers-and-answers.md")]
    mod headers_and_answers {}
    #[doc = include_str!("../../../docs/library/pacing.md")]
    mod pacing {}
    #[doc = include_str!("../../../docs/library/what-fits-a-frame.md")]
    mod what_fits_a_frame {}
    #[doc = include_str!("../../../docs/library/after-an-interface-is-back.md")]
    mod after_an_interface_is_back {}
    #[doc = include_str!("../../../docs/library/metrics.md")]
    mod metrics {}
    #[doc = include_str!("../../../docs/library/owners.md")]
    mod owners {}
    #[doc = include_str!("../../../docs/library/sharing-a-pool.md")]
    mod sharing_a_pool {}
    #[doc = include_str!("../../../docs/library/test-with-a-clock.md")]
    mod test_with_a_clock {}
    #[doc = include_str!("../../../docs/library/udp-service-on-xdp.md")]
    mod udp_service_on_xdp {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}
