//! Messages of the Domain Name System (RFC 1035, section 4), as far as a server of one small zone needs them.

const HEADER_BYTES: usize = 12;
/// An answer: a pointer to the name in question, type, class, time to live, an IPv4 address.
pub const RECORD_BYTES: usize = 16;

const NAMES: [&[u8]; 9] = [b"one", b"two", b"three", b"four", b"five", b"six", b"seven", b"eight", b"nine"];
const ZONE: [&[u8]; 2] = [b"wharf", b"test"];
/// Documentation addresses (RFC 5737), whose last byte is the number of the name.
const NET: [u8; 3] = [192, 0, 2];
const TTL_SECONDS: u32 = 60;

const TYPE_A: [u8; 2] = [0, 1];
const CLASS_IN: [u8; 2] = [0, 1];
/// Flags: response and authoritative answer; opcode and recursion desired are kept.
const RESPONSE: u8 = 0x80;
const AUTHORITATIVE: u8 = 0x04;
const OPCODE: u8 = 0x78;
const KEPT: u8 = OPCODE | 0x01;

/// Response codes.
const NO_ERROR: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const NAME_ERROR: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// Turns the question at the start of `message`, `asked` bytes long, into its answer, and returns the answer's length. `None`
/// for messages that get no answer: answers above all, or two servers would never stop.
pub fn answer(message: &mut [u8], asked: usize) -> Option<usize> {
    let question = message.get(..asked)?;
    let header: [u8; HEADER_BYTES] = *question.first_chunk()?;
    if header[2] & RESPONSE != 0 {
        return None;
    }
    let (code, end, address) = match find(question) {
        _ if header[2] & OPCODE != 0 => (NOT_IMPLEMENTED, HEADER_BYTES, None),
        None => (FORMAT_ERROR, HEADER_BYTES, None),
        Some((end, Found::Elsewhere)) => (REFUSED, end, None),
        Some((end, Found::Nothing)) => (NAME_ERROR, end, None),
        Some((end, Found::Name(number))) if question.get(end - 4..end)? == [TYPE_A, CLASS_IN].concat() => {
            (NO_ERROR, end, Some(number))
        }
        Some((end, Found::Name(_))) => (NO_ERROR, end, None),
    };
    let counts = [u8::from(end > HEADER_BYTES), u8::from(address.is_some()), 0, 0];
    message[2] = RESPONSE | AUTHORITATIVE | header[2] & KEPT;
    message[3] = code;
    for (place, count) in message[4..HEADER_BYTES].chunks_exact_mut(2).zip(counts) {
        place.copy_from_slice(&[0, count]);
    }
    let Some(number) = address else { return Some(end) };
    let record = message.get_mut(end..end + RECORD_BYTES)?;
    record[..2].copy_from_slice(&[0xc0, HEADER_BYTES as u8]);
    record[2..4].copy_from_slice(&TYPE_A);
    record[4..6].copy_from_slice(&CLASS_IN);
    record[6..10].copy_from_slice(&TTL_SECONDS.to_be_bytes());
    record[10..12].copy_from_slice(&[0, 4]);
    record[12..15].copy_from_slice(&NET);
    record[15] = number;
    Some(end + RECORD_BYTES)
}

/// The zone's entry for a name.
enum Found {
    /// The zone, or one of its names: 0 for the zone itself.
    Name(u8),
    /// A name of the zone without an entry.
    Nothing,
    Elsewhere,
}

/// Returns the end of the question and its entry; `None` for anything but one whole question.
fn find(question: &[u8]) -> Option<(usize, Found)> {
    let mut labels = [&question[..0]; 3];
    let (mut at, mut count) = (HEADER_BYTES, 0usize);
    if question[4..6] != [0, 1] {
        return None;
    }
    loop {
        let len = usize::from(*question.get(at)?);
        if len == 0 {
            break;
        }
        // A length beyond 63 would be a pointer, and there is no earlier name to point to.
        let label = question.get(at + 1..at + 1 + len).filter(|_| len < 64)?;
        // Only the last three labels matter.
        labels.rotate_left(1);
        labels[2] = label;
        (at, count) = (at + 1 + len, count + 1);
    }
    let end = at + 1 + 4;
    let same = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
    let is_ours = count >= 2 && same(labels[1], ZONE[0]) && same(labels[2], ZONE[1]);
    let number = NAMES.iter().position(|name| same(name, labels[0]));
    let found = match (is_ours, count, number) {
        (false, ..) => Found::Elsewhere,
        (true, 2, _) => Found::Name(0),
        (true, 3, Some(number)) => Found::Name(number as u8 + 1),
        (true, ..) => Found::Nothing,
    };
    question.get(..end).map(|_| (end, found))
}
