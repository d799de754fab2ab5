//! Packets with a header of their own and bytes derived from it.

/// Returns the bytes of packet `number` of sender `who`: its header, then bytes derived from it.
pub fn content(who: u32, number: u32, len: usize) -> impl Iterator<Item = u8> {
    let header = u64::from(who) << 32 | u64::from(number);
    let mut state = header.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let body = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    header.to_be_bytes().into_iter().chain(body).take(len)
}

/// Returns the length of packet `number`: all sorts, from 60 to 1514.
pub fn len_of(number: u32) -> usize {
    60 + number.wrapping_mul(2_654_435_761) as usize % 1455
}

/// Writes packet `number` of sender `who`.
pub fn write(bytes: &mut [u8], who: u32, number: u32) {
    let len = bytes.len();
    bytes.iter_mut().zip(content(who, number, len)).for_each(|(to, from)| *to = from);
}

/// Returns a packet's sender and number. Checks its length and bytes.
pub fn read(bytes: &[u8]) -> (u32, u32) {
    let header = u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let (who, number) = ((header >> 32) as u32, header as u32);
    assert_eq!(bytes.len(), len_of(number), "length of packet {number} of {who}");
    assert!(bytes.iter().copied().eq(content(who, number, bytes.len())), "packet {number} of {who}");
    (who, number)
}
