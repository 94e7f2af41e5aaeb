//! Names of files as text. A byte that is not UTF-8 is the character U+10FE00 + byte, which stands for that byte again in a request.

use std::borrow::Cow;

const BASE: u32 = 0x10_FE00;
/// What every character that stands for a byte begins with in UTF-8.
const LEAD: u8 = 0xF4;

/// Each name has one text. A name that holds one of the characters itself has its four bytes in their place.
pub fn text(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(name)
        && !name.contains(&LEAD)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte(character) {
                Some(_) => text.extend(character.encode_utf8(&mut [0; 4]).bytes().filter_map(stand_in)),
                None => text.push(character),
            }
        }
        text.extend(chunk.invalid().iter().copied().filter_map(stand_in));
    }
    Cow::Owned(text)
}

pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.as_bytes().contains(&LEAD) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut name = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte(character) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(name)
}

fn stand_in(byte: u8) -> Option<char> {
    char::from_u32(BASE + u32::from(byte))
}

/// Never one of ASCII, or a slash and dots could come out of what was looked at without them.
fn byte(character: char) -> Option<u8> {
    u8::try_from(u32::from(character).checked_sub(BASE)?).ok().filter(|byte| !byte.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::{bytes, text};

    #[test]
    fn each_name_has_one_text_that_leads_back_to_it() {
        let names: [(&[u8], &str); 7] = [
            (b"plain", "plain"),
            ("caf\u{e9} \u{1f600}".as_bytes(), "caf\u{e9} \u{1f600}"),
            (b"caf\xe9", "caf\u{10fee9}"),
            (b"\xff\xfe", "\u{10feff}\u{10fefe}"),
            // Cut short, too long, a half of a pair.
            (b"\xe2\x82/\xc0\xae", "\u{10fee2}\u{10fe82}/\u{10fec0}\u{10feae}"),
            ("\u{10feff}".as_bytes(), "\u{10fef4}\u{10fe8f}\u{10febb}\u{10febf}"),
            ("\u{10fe2f}\u{10fdff}".as_bytes(), "\u{10fe2f}\u{10fdff}"),
        ];
        for (name, shown) in names {
            assert_eq!(text(name), shown);
            assert_eq!(*bytes(shown), *name);
        }
        for first in 0..=255 {
            for second in 0..=255 {
                let name = [first, second, b'x'];
                assert_eq!(*bytes(&text(&name)), name);
            }
        }
    }

    #[test]
    fn no_character_stands_for_ascii() {
        for byte in 0..0x80 {
            let character = char::from_u32(0x10_FE00 + byte).unwrap().to_string();
            assert_eq!(*bytes(&character), *character.as_bytes());
        }
    }
}
