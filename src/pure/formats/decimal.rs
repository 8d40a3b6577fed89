//! Decimal numbers as text or bytes, brought to an integer of a declared scale: exactly, or not at all. No double
//! is ever made of one.

use crate::pure::event::{Mistake, Reason};

/// Digits beyond which no 64-bit integer is meant; it bounds the work that an exponent can cause.
const SHIFT_MAX: i64 = 400;

/// A decimal number times ten to the `scale`, where that is a whole number: `80.5` of scale 2 is 8050.
pub fn of_text(text: &str, scale: u32) -> Result<i64, Mistake> {
    let malformed = || (Reason::WrongType, format!("{text:?} is no number"));
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| malformed())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let shift = exponent.saturating_add(i64::from(scale)).saturating_sub(fraction.len() as i64);
    scaled(negative, digits.trim_start_matches('0'), shift, text, scale)
}

/// A two's complement number, most significant byte first, that stands for itself times ten to the minus
/// `bytes_scale`; again times ten to the `scale`.
pub fn of_bytes(bytes: &[u8], bytes_scale: i64, scale: u32) -> Result<i64, Mistake> {
    let Some(first) = bytes.first() else {
        return Err((Reason::WrongType, "a decimal without bytes".to_owned()));
    };
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    let mut number = [fill; 16];
    let useful = bytes.len().min(16);
    let (rest, low) = bytes.split_at(bytes.len() - useful);
    if rest.iter().any(|byte| *byte != fill) || low[0] & 0x80 != first & 0x80 {
        return Err((Reason::NumberOutOfRange, "a decimal of more than 16 bytes".to_owned()));
    }
    number[16 - useful..].copy_from_slice(low);
    let number = i128::from_be_bytes(number);
    let digits = number.unsigned_abs().to_string();
    let shift = i64::from(scale).saturating_sub(bytes_scale);
    let shown = format!("{number}e-{bytes_scale}");
    scaled(number < 0, digits.trim_start_matches('0'), shift, &shown, scale)
}

/// `digits` (without leading zeros) times ten to the `shift`.
fn scaled(negative: bool, digits: &str, shift: i64, shown: &str, scale: u32) -> Result<i64, Mistake> {
    if digits.is_empty() {
        return Ok(0);
    }
    let too_big = || (Reason::NumberOutOfRange, format!("{shown} is outside 64 bits at scale {scale}"));
    let not_whole = || (Reason::NotExact, format!("{shown} has more than {scale} decimal places"));
    let zeros = "0".repeat(usize::try_from(shift.clamp(0, SHIFT_MAX)).unwrap_or(0));
    let kept = match usize::try_from(shift.saturating_neg()) {
        // To be divided: what falls away must be nothing.
        Ok(dropped) if dropped > 0 => {
            let at = digits.len().checked_sub(dropped).ok_or_else(not_whole)?;
            let (kept, lost) = digits.split_at(at);
            if lost.bytes().any(|byte| byte != b'0') {
                return Err(not_whole());
            }
            kept
        }
        _ => digits,
    };
    if kept.is_empty() {
        return Ok(0);
    }
    let sign = if negative { "-" } else { "" };
    if kept.len() + zeros.len() > 20 {
        return Err(too_big());
    }
    format!("{sign}{kept}{zeros}").parse().map_err(|_| too_big())
}

/// The bytes of standard base64; nothing where it is none.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let unpadded = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - unpadded.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(unpadded.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in unpadded.bytes() {
        bits = bits << 6 | u32::from(value(byte)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Bytes as standard base64.
pub fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let part = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_exact_or_refused() {
        for (text, scale, number) in [
            ("80.00", 2, 8_000),
            ("80", 2, 8_000),
            ("-0.01", 2, -1),
            ("1e3", 0, 1_000),
            ("1.5E1", 0, 15),
            ("0.30", 1, 3),
            ("-0", 0, 0),
            ("0e999999999", 2, 0),
            ("100e-2", 0, 1),
            ("90071992547409.93", 2, 9_007_199_254_740_993),
            ("92233720368547758.07", 2, i64::MAX),
            ("-92233720368547758.08", 2, i64::MIN),
            ("00000000000000000000000000000001", 0, 1),
        ] {
            assert_eq!(of_text(text, scale), Ok(number), "{text}");
        }
        let reason = |text: &str, scale| of_text(text, scale).expect_err(text).0;
        for text in ["0.30000000000000004", "0.005", "1e-3", "1e-999999999"] {
            assert_eq!(reason(text, 2), Reason::NotExact, "{text}");
        }
        for text in ["92233720368547758.08", "1e400", "1e9223372036854775807", "99999999999999999999999"] {
            assert_eq!(reason(text, 2), Reason::NumberOutOfRange, "{text}");
        }
        for text in ["", "-", ".", "NaN", "Infinity", "1,5", "1e", "0x1", " 1", "1e99999999999999999999", "é"]
        {
            assert_eq!(reason(text, 2), Reason::WrongType, "{text}");
        }
    }

    #[test]
    fn bytes_are_signed_and_most_significant_first() {
        for (text, scale, number) in [
            ("BBo=", 2, 1_050),
            ("ALk=", 1, 185),
            ("uQ==", 1, -71),
            ("/w==", 2, -1),
            ("AA==", 2, 0),
            ("AIA=", 0, 128),
            ("gA==", 0, -128),
        ] {
            let bytes = base64(text).expect(text);
            assert_eq!(of_bytes(&bytes, i64::from(scale), scale), Ok(number), "{text}");
            assert_eq!(to_base64(&bytes), text);
        }
        assert_eq!(of_bytes(&[0x04, 0x1a], 2, 3), Ok(10_500), "a finer scale");
        assert_eq!(of_bytes(&[0x04, 0x1a], 2, 1), Ok(105), "a coarser one that holds it");
        assert_eq!(of_bytes(&[0x04, 0x1b], 2, 1).expect_err("1051").0, Reason::NotExact);
        assert_eq!(of_bytes(&[0xff; 40], 0, 0), Ok(-1), "sign bytes mean nothing");
        assert_eq!(of_bytes(&[0x7f; 20], 0, 0).expect_err("too long").0, Reason::NumberOutOfRange);
        assert_eq!(of_bytes(&[1], i64::MIN, 0).expect_err("too big").0, Reason::NumberOutOfRange);
        assert_eq!(of_bytes(&[], 0, 0).expect_err("nothing").0, Reason::WrongType);
    }

    #[test]
    fn base64_is_the_standard_one() {
        for text in ["A", "AA", "AAA", "A===", "AA=A", "A-==", "AAAA=", "ä==="] {
            assert_eq!(base64(text), None, "{text}");
        }
        assert_eq!(base64(""), Some(Vec::new()));
        assert_eq!(base64("Zm9vYmFy"), Some(b"foobar".to_vec()));
    }
}
