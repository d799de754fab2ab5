use super::{DESTINATIONS, HEADERS, retransmit, write};
use std::time::Duration;

#[test]
fn each_payload_leaves_to_all_destinations_by_any_number_of_paths() {
    for (producers, specs) in [(1, "null"), (1, "null null"), (5, "null null@0 null"), (2, "null@11 null@9")]
    {
        let paths: Vec<String> = specs.split(' ').map(String::from).collect();
        let sent = retransmit(producers, Duration::from_millis(30), &paths).unwrap();
        assert!(sent > 0 && sent.is_multiple_of(DESTINATIONS as u64), "{producers}, {specs}: {sent}");
    }
}

#[test]
fn an_unusable_path_ends_the_run_with_its_error() {
    let specs = ["null".to_string(), "nowhere".to_string()];
    let error = retransmit(1, Duration::from_secs(1), &specs).unwrap_err().to_string();
    assert!(error.contains("unknown kind of device"), "{error}");
}

#[test]
fn headers_have_their_lengths_addresses_and_checksum() {
    let (mut packet, payload) = ([0; HEADERS.len() + 1232], [7; 1232]);
    write(&mut packet, &payload, 199);
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert_eq!((usize::from(word(16)), usize::from(word(38))), (packet.len() - 14, packet.len() - 34));
    assert_eq!(packet[26..34], [10, 9, 0, 1, 10, 77, 0, 199]);
    let sum: u32 = (14..34).step_by(2).map(|at| u32::from(word(at))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    assert_eq!(packet[HEADERS.len()..], payload);
}
