//! One regular expression: RE2's syntax, matched against whole names in linear time.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

/// Longer expressions are refused: each class of Unicode in one takes time before any memory counts.
pub const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Memory of a compiled expression: nested repetitions reach it, and are refused.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// How deep groups may nest.
const MAX_NESTING: u32 = 250;

/// An expression for whole names.
pub fn compile(regex: &str) -> Result<Regex, regex::Error> {
    if regex.len() > MAX_PATTERN_BYTES {
        return Err(regex::Error::CompiledTooBig(MAX_COMPILED_BYTES));
    }
    let regex = without_quotes(regex);
    // Alone first: it must not close the group that is put around it.
    let alone = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&regex);
    alone.map_err(|error| regex::Error::Syntax(error.to_string()))?;
    RegexBuilder::new(&format!(r"\A(?:{regex})\z"))
        .size_limit(MAX_COMPILED_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
}

/// RE2 takes what stands between `\Q` and `\E` literally.
fn without_quotes(regex: &str) -> Cow<'_, str> {
    if !regex.contains(r"\Q") {
        return Cow::Borrowed(regex);
    }
    let mut out = String::with_capacity(regex.len());
    let mut rest = regex;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if let Some(quoted) = behind.strip_prefix('Q') {
            let (quoted, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(quoted));
            rest = behind;
        } else {
            let escaped = behind.chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[at..at + 1 + escaped]);
            rest = &behind[escaped..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(regex: &str, name: &str) -> bool {
        compile(regex).expect("it is valid").is_match(name)
    }

    #[test]
    fn whole_names_match() {
        assert!(matches("diff-k[01].*", "diff-k0.1"));
        assert!(!matches("k0", "diff-k0") && !matches("k0", "k01") && !matches("a|b", "ab"));
        assert!(matches("a|ab", "ab"));
        assert!(matches(r"(?i)T\d+", "t12") && matches(r"\p{L}+", "abc"));
        assert!(matches(r"\Qa.b\E.", "a.bc") && !matches(r"\Qa.b\E.", "aXbc"));
        assert!(matches(r"\\Q.*", r"\Qx") && matches(r"x\Q.*", "x.*"));
    }

    #[test]
    fn what_re2_has_not_is_refused() {
        for regex in ["[", "(a", "a)(b", r"\p{Nonsense}", "(?=a)", r"(a)\1", "a{2,1}"] {
            assert!(compile(regex).is_err(), "{regex}");
        }
    }

    #[test]
    fn the_memory_of_repetitions_is_bounded() {
        assert!(compile("((((a{100}){100}){100}){100})").is_err());
        assert!(compile(&format!("{}a{}", "(".repeat(30_000), ")".repeat(30_000))).is_err());
        assert!(compile(&"a?".repeat(16_000)).is_err());
        assert!(compile(&"ab".repeat(2_000)).is_ok());
        assert!(compile(&"ab".repeat(3_000)).is_err());
    }
}
