//! Base64 with padding, for bytes inside JSON.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(parts: [&[u8]; 2]) -> String {
    let mut bytes = parts.iter().flat_map(|part| part.iter().copied());
    let mut out = String::with_capacity((parts[0].len() + parts[1].len()).div_ceil(3) * 4);
    while let Some(first) = bytes.next() {
        let (second, third) = (bytes.next(), bytes.next());
        let word = u32::from(first) << 16 | u32::from(second.unwrap_or(0)) << 8 | u32::from(third.unwrap_or(0));
        let digit = |shift: u32| char::from(ALPHABET[(word >> shift & 63) as usize]);
        out.push(digit(18));
        out.push(digit(12));
        out.push(if second.is_some() { digit(6) } else { '=' });
        out.push(if third.is_some() { digit(0) } else { '=' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn pads_and_crosses_the_seam() {
        assert_eq!(encode([b"", b""]), "");
        assert_eq!(encode([b"f", b""]), "Zg==");
        assert_eq!(encode([b"f", b"o"]), "Zm8=");
        assert_eq!(encode([b"fo", b"ob"]), "Zm9vYg==");
        assert_eq!(encode([b"\xff\xfe", b"\xfd"]), "//79");
    }
}
