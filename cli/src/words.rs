//! Words of a line, with the quotes of a shell.

/// Splits a line into words. Single quotes keep everything, double quotes keep all but `\"` and
/// `\\`, and a backslash outside quotes keeps the next character.
pub(crate) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err("a quote is not closed"),
                    }
                }
            }
            '"' => quoted(&mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next() {
                Some(letter) => word.get_or_insert_default().push(letter),
                None => return Err("a backslash at the end"),
            },
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    loop {
        match letters.next() {
            Some('"') => return Ok(()),
            Some('\\') => match letters.next() {
                Some(letter @ ('"' | '\\')) => word.push(letter),
                Some(letter) => word.extend(['\\', letter]),
                None => return Err("a quote is not closed"),
            },
            Some(letter) => word.push(letter),
            None => return Err("a quote is not closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        let words = split(r#"set /a 'it is' "a \"b\" \n" c\ d ''"#).expect("valid");
        assert_eq!(words, ["set", "/a", "it is", r#"a "b" \n"#, "c d", ""]);
        for open in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(split(open).is_err(), "{open}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_are_read_back(words in prop::collection::vec("[^']*", 0..5)) {
            let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&line.join(" ")).expect("quoted"), words);
        }
    }
}
