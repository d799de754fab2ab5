//! Bands of single DSCPs as people write them: `46=0/cs1=2`.

use super::DscpBands;

/// Names of DSCPs by number (RFC 2474, 2597, 3246, 5865, 8622), besides `cs0` to `cs7`.
const NAMES: [(&str, u8); 16] = [
    ("df", 0),
    ("le", 1),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("va", 44),
    ("ef", 46),
];
const DSCP_MAX: u8 = 63;

impl DscpBands {
    /// Reads `DSCP=BAND[/DSCP=BAND]...`, bands counted from 0 to below `bands`. The other DSCPs keep the bands that they have by default.
    pub(crate) fn read(text: &str, bands: u8) -> Result<Self, String> {
        let wrong = |part: &str| {
            format!(
                "\"{}\" is no DSCP=BAND; want 0 to {DSCP_MAX} or a name such as ef, cs1 or af41, and a band from 0 to {}: 46=0/cs1=2",
                part.escape_debug(),
                bands.saturating_sub(1)
            )
        };
        text.split('/').try_fold(Self::default(), |mut map, part| {
            let (dscp, band) = one(part, bands).ok_or_else(|| wrong(part))?;
            map.set(dscp, band);
            Ok(map)
        })
    }
}

fn one(part: &str, bands: u8) -> Option<(u8, u8)> {
    let (dscp, band) = part.split_once('=')?;
    let dscp = number(dscp).or_else(|| named(&dscp.to_ascii_lowercase())).filter(|dscp| *dscp <= DSCP_MAX)?;
    let band = number(band).filter(|band| *band < bands)?;
    Some((dscp, band))
}

fn number(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()))
}

fn named(name: &str) -> Option<u8> {
    let of_class = || match name.strip_prefix("cs")?.as_bytes() {
        [class @ b'0'..=b'7'] => Some((class - b'0') << 3),
        _ => None,
    };
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, dscp)| *dscp).or_else(of_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_read_and_the_others_stay() {
        let map = DscpBands::read("46=1/CS1=2/af41=0/cs7=1", 3).unwrap();
        assert_eq!([46, 8, 34, 56].map(|dscp| map.band(dscp)), [1, 2, 0, 1]);
        let by_default = DscpBands::default();
        for dscp in (0..64).filter(|dscp| ![46, 8, 34, 56].contains(dscp)) {
            assert_eq!(map.band(dscp), by_default.band(dscp), "{dscp}");
        }
    }

    #[test]
    fn other_texts_get_an_error_with_an_example() {
        for wrong in
            ["", "46", "46=", "=0", "64=0", "46=3", "46=-1", "+46=0", "cs8=0", "cs=0", "ef=0/", "ef=0,cs1=2"]
        {
            assert!(DscpBands::read(wrong, 3).unwrap_err().contains("46=0/cs1=2"), "{wrong}");
        }
    }
}
