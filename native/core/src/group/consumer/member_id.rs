//! Ids of members that have none of their own (ConsumerGroupHeartbeat v0): Kafka's `Uuid` as text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The place of `-` in the alphabet: Kafka makes no id that a command line would take for an option.
const DASH: u128 = 62;

/// A random UUID (version 4) in URL-safe base64 without padding: 22 characters.
pub fn made_member_id(entropy: u128) -> String {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    const FIRST: u128 = 0b11_1111 << 122;
    let mut uuid = entropy & !(VERSION | VARIANT) | 0x4 << 76 | 0b10 << 62;
    if uuid & FIRST == DASH << 122 {
        uuid &= !FIRST;
    }
    let digit = |at: u32| {
        let bits = if at < 21 { uuid >> (122 - 6 * at) } else { uuid << 4 };
        char::from(ALPHABET[(bits & 0b11_1111) as usize])
    };
    (0..22).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::made_member_id;

    #[test]
    fn makes_22_characters_of_which_the_first_is_no_dash() {
        assert_eq!(made_member_id(0), "AAAAAAAAQACAAAAAAAAAAA");
        assert_eq!(made_member_id(u128::MAX), "________T_-__________w");
        assert_eq!(made_member_id(62 << 122), made_member_id(0));
    }
}
