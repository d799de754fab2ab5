//! `Request`: a message to the kernel.

/// A message: header, the family's own header, attributes.
pub(super) struct Request(Vec<u8>);

impl Request {
    /// Begins a message of `kind` with `flags` beside `NLM_F_REQUEST`, and `body` behind the header. It goes
    /// to the kernel, without a sequence number.
    pub(super) fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        Self([&[0; 4], &kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &[0; 8], body].concat())
    }

    /// Appends an attribute (`struct nlattr`).
    pub(super) fn with(mut self, attribute: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(attribute.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Returns the message, with its length.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        let message_bytes = self.0.len() as u32;
        self.0[..4].copy_from_slice(&message_bytes.to_ne_bytes());
        self.0
    }
}
