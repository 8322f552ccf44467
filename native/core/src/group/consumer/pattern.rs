//! One regular expression: RE2's syntax (`re2`), matched against whole names in linear time.

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

use super::re2::rewritten;

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
    let regex = rewritten(regex).map_err(regex::Error::Syntax)?;
    // Alone first: it must not close the group that is put around it.
    let alone = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&regex);
    alone.map_err(|error| regex::Error::Syntax(error.to_string()))?;
    RegexBuilder::new(&format!(r"\A(?:{regex})\z"))
        .size_limit(MAX_COMPILED_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
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

    /// What RE2/J 1.8, which Kafka 4.4.0 has, says of the same expressions: `invalid`, or a digit for each
    /// of the names in the first line.
    #[test]
    fn verdicts_are_those_of_re2j() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/regular-expressions.tsv");
        let file = std::fs::read_to_string(path).expect("it is there");
        let mut lines = file.lines();
        let names: Vec<&str> = lines.next().expect("names").split('\t').collect();
        let mut told = String::new();
        for line in lines {
            let (regex, want) = line.rsplit_once('\t').expect("an expression and a verdict");
            let verdict = match compile(regex) {
                Ok(regex) => {
                    names.iter().map(|name| u8::from(regex.is_match(name)).to_string()).collect()
                }
                Err(_) => String::from("invalid"),
            };
            if verdict != want {
                told += &format!("{regex}\n  RE2/J {want}\n  here  {verdict}\n");
            }
        }
        assert!(told.is_empty(), "\n{told}");
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
