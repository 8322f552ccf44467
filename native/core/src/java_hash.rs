//! Java's `String.hashCode`: where groups live, and how a `HashMap` iterates, depend on it.

const UNITS: usize = 4;

/// Over the units of UTF-16, wrapping: each is added to 31 times what those before it made.
pub fn java_hash(text: &str) -> u32 {
    if !text.is_ascii() {
        return text.encode_utf16().fold(0, step);
    }
    // A step waits for the one before: four at once wait once.
    let (fours, rest) = text.as_bytes().as_chunks::<UNITS>();
    let hash = fours.iter().fold(0u32, |hash, four| {
        let of_four = four.iter().fold(0, |of_four, unit| step(of_four, u16::from(*unit)));
        hash.wrapping_mul(31u32.pow(UNITS as u32)).wrapping_add(of_four)
    });
    rest.iter().fold(hash, |hash, unit| step(hash, u16::from(*unit)))
}

fn step(hash: u32, unit: u16) -> u32 {
    hash.wrapping_mul(31).wrapping_add(u32::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of log-format section 1, made with Java itself.
    #[test]
    fn hashes_as_java_does() {
        for (text, hash) in [
            ("", 0),
            ("g", 103),
            ("test-group", 627841412),
            ("my-group", -1906497762),
            ("console-consumer-12345", 158455506),
            ("группа", 1749938458),
            ("消费组", 28099635),
            ("polygenelubricants", i32::MIN),
        ] {
            assert_eq!(java_hash(text).cast_signed(), hash, "{text}");
        }
    }
}
