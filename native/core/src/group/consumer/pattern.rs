//! One regular expression: RE2's syntax, matched against whole names in linear time.
//!
//! What RE2/J has and this engine has not, or has otherwise, is rewritten: text between `\Q` and `\E`,
//! and the classes `\d`, `\s` and `\w`, which hold ASCII alone. Not rewritten, and so different:
//! `[[` begins a class within a class here, and is a bracket there.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

/// Longer expressions are refused: each class of Unicode in one takes time before any memory counts.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Memory of a compiled expression: nested repetitions reach it, and are refused.
const MAX_COMPILED_BYTES: usize = 256 << 10;

/// How deep groups may nest.
const MAX_NESTING: u32 = 250;

/// An expression for whole names.
pub fn compile(regex: &str) -> Result<Regex, regex::Error> {
    if regex.len() > MAX_PATTERN_BYTES {
        return Err(regex::Error::CompiledTooBig(MAX_COMPILED_BYTES));
    }
    let regex = rewritten(regex);
    // Alone first: it must not close the group that is put around it.
    let alone = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&regex);
    alone.map_err(|error| regex::Error::Syntax(error.to_string()))?;
    RegexBuilder::new(&format!(r"\A(?:{regex})\z"))
        .size_limit(MAX_COMPILED_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
}

/// The expression in the words of this engine.
fn rewritten(regex: &str) -> Cow<'_, str> {
    if !regex.contains('\\') {
        return Cow::Borrowed(regex);
    }
    let mut out = String::with_capacity(regex.len());
    let mut rest = regex;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let Some(escaped) = behind.chars().next() else {
            rest = &rest[at..];
            break;
        };
        rest = &behind[escaped.len_utf8()..];
        match escaped {
            'Q' => {
                let (quoted, behind) = rest.split_once(r"\E").unwrap_or((rest, ""));
                out.push_str(&regex::escape(quoted));
                rest = behind;
            }
            _ => match ascii_class(escaped) {
                Some(class) => out.push_str(class),
                None => out.extend(['\\', escaped]),
            },
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// As a class that may stand alone and within another.
fn ascii_class(escaped: char) -> Option<&'static str> {
    Some(match escaped {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
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
        assert!(matches(r"[\w.-]+\d{2}\D", "a_b.c-12x") && !matches(r"\w", "ä"));
        assert!(matches(r"[\W]", "-") && !matches(r"[^\W]", "-") && matches(r"\S\s\S", "a b"));
        assert!(compile(r"a\").is_err());
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
        assert!(compile(&r"\pL".repeat(1_300)).is_err());
        assert!(compile(&r"\w+".repeat(1_000)).is_ok());
        assert!(compile(&"ab".repeat(2_000)).is_ok());
        assert!(compile(&"ab".repeat(3_000)).is_err());
    }
}
