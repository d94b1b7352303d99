//! Merges two changes of one text, line by line.

/// Larger comparisons are not made: the lines between the first and the last change then count as
/// one change.
const MOST_CELLS: usize = 1 << 20;

/// The marks of a conflict, at the beginning of lines.
const MINE: &str = "<<<<<<< mine";
const BASE: &str = "||||||| base";
const MIDDLE: &str = "=======";
const THEIRS: &str = ">>>>>>> theirs";

/// A part of a merged text, in lines with their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergePart<'a> {
    /// The same on both sides, or changed on one side only.
    Merged(Vec<&'a str>),
    /// Changed on both sides.
    Conflict { mine: Vec<&'a str>, base: Vec<&'a str>, theirs: Vec<&'a str> },
}

/// Merges the changes of `mine` and `theirs`, which both began with `base`.
pub(crate) fn merge<'a>(base: &'a str, mine: &'a str, theirs: &'a str) -> Vec<MergePart<'a>> {
    let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<_>>();
    let (base, mine, theirs) = (lines(base), lines(mine), lines(theirs));
    let (in_mine, in_theirs) = (common(&base, &mine), common(&base, &theirs));
    let mut parts = Vec::new();
    let (mut from, mut m, mut t) = (0, 0, 0);
    for place in 0..=base.len() {
        // The end is common to all.
        let found = match place == base.len() {
            true => Some((mine.len(), theirs.len())),
            false => in_mine[place].zip(in_theirs[place]),
        };
        let Some((next_m, next_t)) = found else { continue };
        add(&mut parts, &base[from..place], &mine[m..next_m], &theirs[t..next_t]);
        if let Some(line) = base.get(place) {
            push(&mut parts, &[line]);
        }
        (from, m, t) = (place + 1, next_m + 1, next_t + 1);
    }
    parts
}

/// Returns the lines that differ: with `-` those of `before`, and with `+` those of `after`.
pub(crate) fn changed_lines<'a>(before: &'a str, after: &'a str) -> Vec<(char, &'a str)> {
    let (before, after) = (before.lines().collect::<Vec<_>>(), after.lines().collect::<Vec<_>>());
    let places = common(&before, &after);
    let (mut changed, mut next) = (Vec::new(), 0);
    for (line, place) in before.iter().zip(&places) {
        match place {
            Some(place) => {
                changed.extend(after[next..*place].iter().map(|line| ('+', *line)));
                next = place + 1;
            }
            None => changed.push(('-', *line)),
        }
    }
    changed.extend(after[next..].iter().map(|line| ('+', *line)));
    changed
}

/// Adds the lines between two common ones.
fn add<'a>(parts: &mut Vec<MergePart<'a>>, base: &[&'a str], mine: &[&'a str], theirs: &[&'a str]) {
    if mine == base {
        push(parts, theirs);
    } else if theirs == base || mine == theirs {
        push(parts, mine);
    } else {
        let (mine, base, theirs) = (mine.to_vec(), base.to_vec(), theirs.to_vec());
        parts.push(MergePart::Conflict { mine, base, theirs });
    }
}

fn push<'a>(parts: &mut Vec<MergePart<'a>>, lines: &[&'a str]) {
    match parts.last_mut() {
        _ if lines.is_empty() => {}
        Some(MergePart::Merged(merged)) => merged.extend(lines),
        _ => parts.push(MergePart::Merged(lines.to_vec())),
    }
}

/// Returns, for each line of `a`, its place in `b`, for the lines of a longest common subsequence.
fn common(a: &[&str], b: &[&str]) -> Vec<Option<usize>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = a.iter().zip(b).take_while(same).count();
    let rest = (&a[head..], &b[head..]);
    let tail = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(same).count();
    let mut places = vec![None; a.len()];
    for (place, common) in places.iter_mut().enumerate().take(head) {
        *common = Some(place);
    }
    for back in 1..=tail {
        places[a.len() - back] = Some(b.len() - back);
    }
    let (rows, columns) = (rest.0.len() - tail, rest.1.len() - tail);
    if rows.saturating_mul(columns) > MOST_CELLS {
        return places;
    }
    // The length of the longest common subsequence of the lines from here on.
    let mut longest = vec![0_u32; (rows + 1) * (columns + 1)];
    let cell = |row: usize, column: usize| row * (columns + 1) + column;
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            longest[cell(row, column)] = if rest.0[row] == rest.1[column] {
                longest[cell(row + 1, column + 1)] + 1
            } else {
                longest[cell(row + 1, column)].max(longest[cell(row, column + 1)])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < rows && column < columns {
        if rest.0[row] == rest.1[column] {
            places[head + row] = Some(head + column);
            (row, column) = (row + 1, column + 1);
        } else if longest[cell(row + 1, column)] >= longest[cell(row, column + 1)] {
            row += 1;
        } else {
            column += 1;
        }
    }
    places
}

/// Returns `true` if both changes fit together.
pub(crate) fn is_clean(parts: &[MergePart<'_>]) -> bool {
    !parts.iter().any(|part| matches!(part, MergePart::Conflict { .. }))
}

/// Returns the merged text, with marks where both sides have changed the same lines. `base` and
/// `theirs` describe the versions.
pub(crate) fn text(parts: &[MergePart<'_>], base: &str, theirs: &str) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            MergePart::Merged(lines) => text.extend(lines.iter().copied()),
            MergePart::Conflict { mine, base: before, theirs: after } => {
                mark(&mut text, MINE);
                text.extend(mine.iter().copied());
                mark(&mut text, &format!("{BASE} ({base})"));
                text.extend(before.iter().copied());
                mark(&mut text, MIDDLE);
                text.extend(after.iter().copied());
                mark(&mut text, &format!("{THEIRS} ({theirs})"));
            }
        }
    }
    text
}

/// Adds a line.
fn mark(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

/// Returns `true` if a text still has marks of a conflict.
pub(crate) fn has_marks(text: &str) -> bool {
    text.lines().any(|line| [MINE, BASE, THEIRS].iter().any(|mark| line.starts_with(mark)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_that_differ_are_found() {
        let changed = changed_lines("a\nb\nc\n", "a\nx\nc\ny");
        assert_eq!(changed, [('-', "b"), ('+', "x"), ('+', "y")]);
        assert!(changed_lines("a\n", "a").is_empty());
        assert_eq!(changed_lines("", "a"), [('+', "a")]);
    }

    fn merged(base: &str, mine: &str, theirs: &str) -> String {
        text(&merge(base, mine, theirs), "version 1", "version 2")
    }

    #[test]
    fn changes_of_different_lines_fit_together() {
        let base = "a\nb\nc\nd\ne\n";
        assert_eq!(merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\nf\n"), "A\nb\nc\nd\nE\nf\n");
        assert_eq!(merged(base, "b\nc\nd\ne\n", "a\nb\nc\ne\n"), "b\nc\ne\n");
    }

    #[test]
    fn changes_of_the_same_line_are_marked() {
        let expected = "a\n<<<<<<< mine\nB\n||||||| base (version 1)\nb\n=======\nx\n\
                        >>>>>>> theirs (version 2)\nc";
        let marked = merged("a\nb\nc", "a\nB\nc", "a\nx\nc");
        assert_eq!(marked, expected);
        assert!(has_marks(&marked) && !has_marks("a\n=======\n"));
        // Texts without an end of the last line.
        let expected = "<<<<<<< mine\n2\n||||||| base (version 1)\n1\n=======\n3\n\
                        >>>>>>> theirs (version 2)\n";
        assert_eq!(merged("1", "2", "3"), expected);
    }

    #[test]
    fn large_texts_are_compared_at_their_ends_only() {
        let numbers =
            |step: usize| -> String { (0..3_000).map(|n| format!("{}\n", n * step)).collect() };
        let (base, other, third) = (numbers(2), numbers(3), numbers(5));
        assert_eq!(merged(&base, &other, &base), other);
        let parts = merge(&base, &other, &third);
        // Zero is the first line of all.
        assert_eq!(parts.len(), 2);
        assert!(!is_clean(&parts));
    }

    fn text_of_few_lines() -> impl Strategy<Value = String> {
        prop::collection::vec("[abc]{0,1}\n?", 0..12).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn one_change_is_taken_as_it_is(base in text_of_few_lines(), other in text_of_few_lines()) {
            prop_assert_eq!(merged(&base, &other, &base), &*other);
            prop_assert_eq!(merged(&base, &base, &other), &*other);
            prop_assert_eq!(merged(&base, &other, &other), &*other);
        }

        #[test]
        fn conflicts_keep_all_three_texts(
            base in text_of_few_lines(),
            mine in text_of_few_lines(),
            theirs in text_of_few_lines(),
        ) {
            let parts = merge(&base, &mine, &theirs);
            let lines = |text: &str| text.split_inclusive('\n').count();
            let (mut in_mine, mut in_base) = (0, 0);
            for part in &parts {
                match part {
                    MergePart::Conflict { mine, base, theirs } => {
                        prop_assert!(mine != base && theirs != base && mine != theirs);
                        in_mine += mine.len();
                        in_base += base.len();
                    }
                    MergePart::Merged(lines) => prop_assert!(!lines.is_empty()),
                }
            }
            prop_assert!(in_mine <= lines(&mine) && in_base <= lines(&base));
            prop_assert_eq!(is_clean(&parts), !has_marks(&text(&parts, "1", "2")));
        }
    }
}
