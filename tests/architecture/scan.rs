//! Takes Rust source apart just far enough for rules: code without comments and the insides of texts, and
//! what lies under `#[cfg(test)]`. No parser: braces and quotes are all that it understands.

/// One line of a source, with what the rules look at.
#[derive(Clone, Debug)]
pub struct Line {
    /// As written.
    pub whole: String,
    /// Without comments; texts keep their quotes and lose what is between them.
    pub code: String,
    /// Inside an item under `#[cfg(test)]`.
    pub in_test: bool,
}

enum State {
    Code,
    BlockComment(usize),
    Text,
    /// A raw text that ends with a quote and this many `#`.
    RawText(usize),
}

/// The lines of a source.
pub fn lines(source: &str) -> Vec<Line> {
    let code = strip(source);
    let in_test = test_lines(&code);
    source
        .lines()
        .zip(code.iter().zip(in_test))
        .map(|(whole, (code, in_test))| Line { whole: whole.to_owned(), code: code.clone(), in_test })
        .collect()
}

/// The code of each line.
fn strip(source: &str) -> Vec<String> {
    let mut state = State::Code;
    source.lines().map(|line| strip_line(line, &mut state)).collect()
}

fn strip_line(line: &str, state: &mut State) -> String {
    let characters: Vec<char> = line.chars().collect();
    let mut code = String::new();
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        match state {
            State::BlockComment(depth) => {
                if rest.starts_with(&['*', '/']) {
                    *depth -= 1;
                    at += 2;
                    if *depth == 0 {
                        *state = State::Code;
                    }
                } else if rest.starts_with(&['/', '*']) {
                    *depth += 1;
                    at += 2;
                } else {
                    at += 1;
                }
            }
            State::Text => {
                match rest[0] {
                    '\\' => at += 1,
                    '"' => {
                        code.push('"');
                        *state = State::Code;
                    }
                    _ => {}
                }
                at += 1;
            }
            State::RawText(hashes) => {
                let ends = rest[0] == '"'
                    && rest.len() > *hashes
                    && rest[1..=*hashes].iter().all(|character| *character == '#');
                if ends {
                    code.push('"');
                    at += *hashes;
                    *state = State::Code;
                }
                at += 1;
            }
            State::Code => at += strip_code(rest, &mut code, state),
        }
    }
    code
}

/// One step in code: how many characters were taken.
fn strip_code(rest: &[char], code: &mut String, state: &mut State) -> usize {
    if rest.starts_with(&['/', '/']) {
        return rest.len();
    }
    if rest.starts_with(&['/', '*']) {
        *state = State::BlockComment(1);
        return 2;
    }
    let word_before = code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let Some(hashes) = raw_text(rest).filter(|_| !word_before) {
        code.push('"');
        *state = State::RawText(hashes);
        return rest.iter().position(|character| *character == '"').unwrap_or(0) + 1;
    }
    match rest[0] {
        '"' => {
            code.push('"');
            *state = State::Text;
            1
        }
        '\'' => match character_length(rest) {
            Some(length) => {
                code.push_str("''");
                length
            }
            None => {
                code.push('\'');
                1
            }
        },
        other => {
            code.push(other);
            1
        }
    }
}

/// The number of `#` where a raw text begins here.
fn raw_text(rest: &[char]) -> Option<usize> {
    let from = match rest {
        ['r', ..] => 1,
        ['b', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[from..].iter().take_while(|character| **character == '#').count();
    (rest.get(from + hashes) == Some(&'"')).then_some(hashes)
}

/// The length of a character literal; `None` for a lifetime.
fn character_length(rest: &[char]) -> Option<usize> {
    if rest.get(1) == Some(&'\\') {
        return rest[3..].iter().position(|character| *character == '\'').map(|at| at + 4);
    }
    (rest.get(2) == Some(&'\'')).then_some(3)
}

/// Which lines belong to items under `#[cfg(test)]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marked = vec![false; code.len()];
    let mut at = 0;
    while at < code.len() {
        if !code[at].contains("#[cfg(test)]") {
            at += 1;
            continue;
        }
        // The item ends where its braces close, or at its semicolon.
        let mut depth = 0usize;
        let mut end = at;
        'item: for (number, line) in code.iter().enumerate().skip(at) {
            end = number;
            let line = if number == at { line.replace("#[cfg(test)]", "") } else { line.clone() };
            for character in line.chars() {
                match character {
                    '{' => depth += 1,
                    '}' => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 {
                            break 'item;
                        }
                    }
                    ';' if depth == 0 => break 'item,
                    _ => {}
                }
            }
        }
        marked[at..=end].iter_mut().for_each(|line| *line = true);
        at = end + 1;
    }
    marked
}
