//! The golden files end to end, through the real pipeline: what the base holds, what is published, and the
//! watermark after every step. Expected values were worked out by hand, and by others.

mod support;

#[path = "golden/chapter.rs"]
mod chapter;
#[path = "golden/corrections.rs"]
mod corrections;
#[path = "golden/poison.rs"]
mod poison;
