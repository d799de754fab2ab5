//! The messages of one `sendmmsg(2)`.

use wharf_sys::udp::{Message, Outgoing};

#[test]
fn a_call_takes_the_messages_that_it_has_room_for() {
    let mut all = Outgoing::new(2, 3, 0);
    let bytes = [1u8, 2, 3, 4];
    for _ in 0..2 {
        let mut writer = all.begin();
        assert!(writer.is_empty() && writer.piece(&bytes[..1]) && writer.piece(&bytes[1..]));
        let message =
            Message { to: "192.0.2.1:9".parse().ok(), segment_bytes: Some(2), ..Message::default() };
        assert!(writer.message(&message));
        assert!(writer.piece(&bytes[2..]) && !writer.piece(&bytes) && writer.room_pieces() == 0);
        assert!(writer.message(&Message::default()) && !writer.message(&Message::default()));
        assert_eq!((writer.len(), writer.room_messages()), (2, 0));
        let joined =
            |at| writer.written(at).pieces.iter().flat_map(|piece| piece.to_vec()).collect::<Vec<u8>>();
        assert_eq!((joined(0), joined(1)), (bytes.to_vec(), vec![3, 4]));
        assert_eq!((writer.written(0).message, writer.written(1).message), (message, Message::default()));
    }
}

#[test]
fn a_joined_piece_is_joined_again() {
    let mut all = Outgoing::new(1, 3, 5);
    let bytes = [1u8, 2, 3];
    let mut writer = all.begin();
    assert!(writer.piece(&bytes[..1]) && writer.piece(&bytes[1..2]) && writer.join());
    assert!(writer.piece(&bytes[2..]) && writer.join() && !writer.join());
    assert!(writer.message(&Message::default()));
    assert_eq!(writer.written(0).pieces.iter().map(|piece| piece.to_vec()).collect::<Vec<_>>(), [[1, 2, 3]]);
}

#[test]
fn pieces_are_joined_while_there_is_room() {
    let mut all = Outgoing::new(3, 6, 5);
    let bytes = [1u8, 2, 3, 4, 5, 6, 7, 8];
    for _ in 0..2 {
        let mut writer = all.begin();
        for (from, is_joined) in [(0, true), (2, true), (4, false)] {
            assert!(writer.piece(&bytes[from..][..1]) && writer.piece(&bytes[from + 1..][..1]));
            assert_eq!(writer.join(), is_joined, "2 of 5 bytes each");
            assert!(writer.message(&Message::default()));
        }
        let pieces =
            |at: usize| writer.written(at).pieces.iter().map(|piece| piece.to_vec()).collect::<Vec<_>>();
        assert_eq!(pieces(0), [[1, 2]]);
        assert_eq!(pieces(1), [[3, 4]]);
        assert_eq!(pieces(2), [[5], [6]]);
    }
}
