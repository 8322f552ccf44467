//! RE2's syntax, as RE2/J has it in Kafka, written in the syntax of the engine that is here. What one of
//! them has and the other has not, or reads otherwise, is said in the words of this one, or refused.
//!
//! Different still: scripts of Unicode are known here by more names, and newer ones too.

use regex_syntax::is_meta_character;

/// More repetitions than this are refused.
const MAX_REPEAT: u32 = 1_000;

/// Letter or short name of what Unicode calls a general category.
const CATEGORIES: [&str; 35] = [
    "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd",
    "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z",
    "Zl", "Zp", "Zs",
];

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

type Rewritten<T = ()> = Result<T, String>;

/// The expression in the syntax of `regex`, without groups that capture.
pub fn rewritten(regex: &str) -> Rewritten<String> {
    let mut scanner =
        Scanner { rest: regex, out: String::new(), names: Vec::new(), flags: String::new() };
    scanner.scan()?;
    Ok(scanner.out)
}

struct Scanner<'a> {
    rest: &'a str,
    out: String,
    /// Of groups.
    names: Vec<&'a str>,
    /// Groups of flags alone that are not written yet.
    flags: String,
}

impl<'a> Scanner<'a> {
    fn scan(&mut self) -> Rewritten {
        let mut is_repeated = false;
        while let Some(next) = self.next() {
            match next {
                '*' | '+' | '?' => self.repeated(next.into(), is_repeated)?,
                '{' => match self.count()? {
                    Some(count) => self.repeated(count, is_repeated)?,
                    None => self.single('{')?,
                },
                _ => self.single(next)?,
            }
            // A brace that is a letter may not be repeated either.
            is_repeated = matches!(next, '*' | '+' | '?' | '{');
        }
        self.out.push_str(&std::mem::take(&mut self.flags));
        Ok(())
    }

    /// Flags that stand before it do not: it repeats what is before them.
    fn repeated(&mut self, how: String, is_repeated: bool) -> Rewritten {
        if is_repeated {
            return Err("invalid nested repetition operator".into());
        }
        self.out.push_str(&how);
        if self.takes("?") {
            self.out.push('?');
        }
        Ok(())
    }

    /// Anything but a repetition.
    fn single(&mut self, next: char) -> Rewritten {
        if next != '(' {
            self.out.push_str(&std::mem::take(&mut self.flags));
        }
        match next {
            '\\' => self.escaped(),
            '[' => self.class(),
            '(' => self.group(),
            '.' | '^' | '$' | '|' | ')' => {
                self.out.push(next);
                Ok(())
            }
            _ => {
                self.literal(next);
                Ok(())
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn takes(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn literal(&mut self, letter: char) {
        if is_meta_character(letter) {
            self.out.push('\\');
        }
        self.out.push(letter);
    }

    fn hexadecimal(&mut self, letter: char) {
        self.out.push_str(&format!(r"\x{{{:x}}}", u32::from(letter)));
    }

    /// Behind a brace: as it counts, where it does.
    fn count(&mut self) -> Rewritten<Option<String>> {
        let counts = |text: &'a str| {
            let (least, most) = text.split_once(',').map_or((text, Some(text)), |(least, most)| {
                (least, (!most.is_empty()).then_some(most))
            });
            Some((number(least)?, most.map_or(Some(None), |most| number(most).map(Some))?))
        };
        let told =
            self.rest.split_once('}').and_then(|(text, behind)| Some((counts(text)?, behind)));
        let Some(((least, most), behind)) = told else {
            return Ok(None);
        };
        if least > MAX_REPEAT || most.is_some_and(|most| most > MAX_REPEAT || most < least) {
            return Err("invalid repeat count".into());
        }
        let text = &self.rest[..self.rest.len() - behind.len()];
        self.rest = behind;
        Ok(Some(format!("{{{text}")))
    }

    /// Behind an opening parenthesis.
    fn group(&mut self) -> Rewritten {
        if !self.takes("?") {
            self.opened("(?:");
            return Ok(());
        }
        if self.takes("P<") || self.takes("<") {
            let (name, behind) = self.rest.split_once('>').ok_or("invalid named capture")?;
            let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if name.is_empty() || !is_name(name) || self.names.contains(&name) {
                return Err("invalid or duplicate named capture".into());
            }
            self.names.push(name);
            self.rest = behind;
            self.opened("(?:");
            return Ok(());
        }
        let end = self.rest.find([':', ')']).ok_or("missing closing )")?;
        let (flags, behind) = self.rest.split_at(end + 1);
        self.rest = behind;
        let letters = &flags[..end];
        let (set, cleared) = letters.split_once('-').unwrap_or((letters, "i"));
        let known = |flags: &str| flags.bytes().all(|flag| b"imsU".contains(&flag));
        if !known(set) || !known(cleared) || cleared.is_empty() {
            return Err("invalid or unsupported flags".into());
        }
        match flags {
            ")" => {}
            _ if flags.ends_with(':') => self.opened(&format!("(?{flags}")),
            _ => self.flags.push_str(&format!("(?{flags}")),
        }
        Ok(())
    }

    fn opened(&mut self, group: &str) {
        self.out.push_str(&std::mem::take(&mut self.flags));
        self.out.push_str(group);
    }

    /// Behind a backslash, outside of classes.
    fn escaped(&mut self) -> Rewritten {
        if self.takes("Q") {
            let (quoted, behind) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
            quoted.chars().for_each(|letter| self.literal(letter));
            self.rest = behind;
            return Ok(());
        }
        for (of_re2, here) in [("b", r"(?-u:\b)"), ("B", r"(?-u:\B)"), ("A", r"\A"), ("z", r"\z")] {
            if self.takes(of_re2) {
                self.out.push_str(here);
                return Ok(());
            }
        }
        if self.class_of_letters()? {
            return Ok(());
        }
        let letter = self.escaped_letter()?;
        self.hexadecimal(letter);
        Ok(())
    }

    /// Behind a backslash: whether it was a class, as `\d` or `\pL`, that may stand alone or in another.
    fn class_of_letters(&mut self) -> Rewritten<bool> {
        let class = match self.rest.bytes().next() {
            Some(b'd') => "[0-9]",
            Some(b'D') => "[^0-9]",
            Some(b's') => r"[\t\n\f\r ]",
            Some(b'S') => r"[^\t\n\f\r ]",
            Some(b'w') => "[0-9A-Za-z_]",
            Some(b'W') => "[^0-9A-Za-z_]",
            Some(b'p' | b'P') => return self.property().map(|()| true),
            _ => return Ok(false),
        };
        self.rest = &self.rest[1..];
        self.out.push_str(class);
        Ok(true)
    }

    fn property(&mut self) -> Rewritten {
        const UNKNOWN: &str = "invalid character class range";
        let is_other = self.next() == Some('P');
        let name = match self.next().ok_or(UNKNOWN)? {
            '{' => {
                let (name, behind) = self.rest.split_once('}').ok_or(UNKNOWN)?;
                self.rest = behind;
                name.into()
            }
            letter => letter.to_string(),
        };
        let (name, is_other) = match name.strip_prefix('^') {
            Some(name) => (name, !is_other),
            None => (&*name, is_other),
        };
        // No text has any of `Cs`.
        let (name, is_other) = if name == "Cs" { ("Any", !is_other) } else { (name, is_other) };
        let not = if is_other { "^" } else { "" };
        if name == "Any" {
            self.out.push_str(&format!(r"[{not}\x{{0}}-\x{{10ffff}}]"));
        } else if CATEGORIES.contains(&name) {
            self.out.push_str(&format!(r"[{not}\p{{{name}}}]"));
        } else if is_script(name) {
            self.out.push_str(&format!(r"[{not}\p{{Script={name}}}]"));
        } else {
            return Err(UNKNOWN.into());
        }
        Ok(())
    }

    /// Behind an opening bracket.
    fn class(&mut self) -> Rewritten {
        const MISSING: &str = "missing closing ]";
        self.out.push('[');
        if self.takes("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.takes("]") {
            is_first = false;
            if self.posix()? {
                continue;
            }
            let rest = self.rest;
            if self.takes(r"\") {
                if self.class_of_letters()? {
                    continue;
                }
                self.rest = rest;
            }
            let from = self.letter_of_class()?.ok_or(MISSING)?;
            self.hexadecimal(from);
            let is_range = self
                .rest
                .strip_prefix('-')
                .is_some_and(|rest| rest.chars().next().is_some_and(|behind| behind != ']'));
            if is_range && self.takes("-") {
                let to = self.letter_of_class()?.ok_or(MISSING)?;
                if to < from {
                    return Err("invalid character class range".into());
                }
                self.out.push('-');
                self.hexadecimal(to);
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// Whether a class by name was there, as `[:alpha:]`.
    fn posix(&mut self) -> Rewritten<bool> {
        let told = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"));
        let Some((name, behind)) = told else {
            return Ok(false);
        };
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err("invalid character class range".into());
        }
        self.out.push_str(&format!("[:{name}:]"));
        self.rest = behind;
        Ok(true)
    }

    fn letter_of_class(&mut self) -> Rewritten<Option<char>> {
        match self.next() {
            Some('\\') => self.escaped_letter().map(Some),
            letter => Ok(letter),
        }
    }

    /// Behind a backslash.
    fn escaped_letter(&mut self) -> Rewritten<char> {
        const INVALID: &str = "invalid escape sequence";
        let escaped = self.next().ok_or("trailing backslash at end of expression")?;
        Ok(match escaped {
            '0'..='7' => {
                let octal =
                    |text: &str| text.bytes().take_while(|b| (b'0'..=b'7').contains(b)).count();
                let more = octal(self.rest).min(2);
                if escaped != '0' && more == 0 {
                    return Err(INVALID.into()); // a reference to a group
                }
                let (digits, behind) = self.rest.split_at(more);
                self.rest = behind;
                let code = u32::from_str_radix(&format!("{escaped}{digits}"), 8);
                code.ok().and_then(char::from_u32).ok_or(INVALID)?
            }
            'x' => {
                let (digits, behind) = match self.rest.strip_prefix('{') {
                    Some(rest) => rest.split_once('}').ok_or(INVALID)?,
                    None => self.rest.split_at_checked(2).ok_or(INVALID)?,
                };
                self.rest = behind;
                let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_number);
                code.and_then(char::from_u32).ok_or(INVALID)?
            }
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            _ if escaped.is_ascii() && !escaped.is_ascii_alphanumeric() => escaped,
            _ => return Err(INVALID.into()),
        })
    }
}

/// As a count is written: without zeros before it. Very large ones are a number that is too large.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_written_so = is_number && (text.len() == 1 || !text.starts_with('0'));
    is_written_so.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Each word of a script's name has one large letter, the first.
fn is_script(name: &str) -> bool {
    let is_word = |word: &str| {
        let mut letters = word.bytes();
        letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && letters.all(|letter| letter.is_ascii_lowercase())
    };
    name.split('_').all(is_word)
}
