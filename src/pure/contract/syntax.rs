//! Texts of a contract as syntax trees, and the words in them as columns: what measures and filters share.
//! Must not know what either means.

use sqlparser::ast::{Expr, Ident, UnaryOperator, Value as Literal};
use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use crate::pure::schema::Table;

/// Longest text of one measure or filter, in bytes. It bounds the depth of a tree, since a chain such as
/// `a+a+a` is as deep as it is long.
pub(in crate::pure) const TEXT_BYTES_MAX: usize = 2_000;

/// Deepest nesting of parentheses and signs.
const NESTING_MAX: usize = 40;

/// Parses the whole text as one expression. Errors are messages without a place.
pub(in crate::pure) fn parse(text: &str) -> Result<Expr, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("longer than {TEXT_BYTES_MAX} bytes"));
    }
    if text.contains('\0') {
        return Err("the character NUL is not supported".to_owned());
    }
    let dialect = SQLiteDialect {};
    let tokens = Tokenizer::new(&dialect, text)
        .tokenize()
        .map_err(|error| format!("{text:?} cannot be read: {error}"))?;
    if tokens.iter().any(is_comment) {
        return Err(format!("{text:?} has a comment; put text with -- or /* in single quotes"));
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens(tokens);
    let tree = parser.parse_expr().map_err(|error| explain(text, &error))?;
    match parser.peek_token().token {
        Token::EOF => Ok(tree),
        token => Err(format!(
            "{text:?}: unexpected {token:?}; text of several words is put in single quotes",
            token = token.to_string()
        )),
    }
}

fn is_comment(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)))
}

fn explain(text: &str, error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            format!("{text:?} cannot be read: {message}")
        }
        ParserError::RecursionLimitExceeded => {
            format!("nested more than {NESTING_MAX} deep")
        }
    }
}

/// The column that a word names; the error says what there is.
pub(in crate::pure) fn column(table: &Table, word: &Ident) -> Result<usize, String> {
    table.column(&word.value).ok_or_else(|| {
        format!("{:?} is no column of {}; its columns are {}", word.value, table.name, column_names(table))
    })
}

pub(in crate::pure) fn column_names(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    names.join(", ")
}

/// An integer literal with its sign; `None` where the tree is something else.
pub(in crate::pure) fn integer(tree: &Expr) -> Option<Result<i64, String>> {
    match tree {
        Expr::Value(literal) => integer_text(&literal.value).map(|digits| parse_integer(digits.to_owned())),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(literal) => {
                integer_text(&literal.value).map(|digits| parse_integer(format!("-{digits}")))
            }
            _ => None,
        },
        _ => None,
    }
}

fn integer_text(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Number(digits, false) => Some(digits),
        _ => None,
    }
}

fn parse_integer(digits: String) -> Result<i64, String> {
    digits.parse().map_err(|_| format!("{digits} is no integer of 64 bits"))
}
