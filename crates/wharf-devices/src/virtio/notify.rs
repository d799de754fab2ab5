//! Rules for notifications (virtio 1.2, sections 2.7.7, 2.7.10, 2.8.10).

/// Returns true if the index moved past `event`, at which the other side wants a notification, from `old` to
/// `new` (section 2.7.7, `vring_need_event` of Linux).
#[inline(always)]
pub(super) fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// Returns how many of the buffers inside may come back before a delayed notification
/// (`virtqueue_enable_cb_delayed`).
#[inline(always)]
pub(super) fn delayed(in_flight: u16) -> u16 {
    (u32::from(in_flight) * 3 / 4) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_passed_once_near_the_wrap_too() {
        for old in [0u16, 7, 65530, 65535] {
            for step in 1..20u16 {
                let new = old.wrapping_add(step);
                for at in 0..40u16 {
                    let event = old.wrapping_add(at);
                    assert_eq!(needs_event(event, new, old), at < step, "{event} from {old} to {new}");
                }
                assert!(!needs_event(old.wrapping_sub(1), new, old));
            }
            assert!(!needs_event(old, old, old));
        }
        assert_eq!((delayed(0), delayed(1), delayed(4), delayed(32768)), (0, 0, 3, 24576));
    }
}
