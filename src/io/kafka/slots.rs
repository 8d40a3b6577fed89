//! Which of the assigned partitions a message belongs to, found without reading names. Must not know how
//! messages are fetched or what is done with them.

use super::native::NativeMessage;
use crate::pure::seq::TopicPartition;

/// A partition that is read.
pub(super) struct Slot {
    pub place: TopicPartition,
    /// The offset after the last record handed out, or the one asked for.
    pub next_offset: i64,
}

/// From a message's topic handle and partition to its slot, without reading the name each time. Handles are
/// stable while the assignment stands, so this is made anew with each.
#[derive(Default)]
pub(super) struct Places {
    topics: Vec<(usize, Vec<Option<usize>>)>,
}

impl Places {
    pub(super) fn find(&mut self, message: &NativeMessage<'_>, slots: &[Slot]) -> Option<usize> {
        let number = usize::try_from(message.partition).ok()?;
        let known = self.topics.iter().position(|(handle, _)| *handle == message.topic_handle);
        let index = match known {
            Some(index) => index,
            None => {
                let by_partition = slots_of_topic(message.topic_name()?, slots);
                self.topics.push((message.topic_handle, by_partition));
                self.topics.len() - 1
            }
        };
        self.topics[index].1.get(number).copied().flatten()
    }
}

fn slots_of_topic(topic: &str, slots: &[Slot]) -> Vec<Option<usize>> {
    let mut by_partition = Vec::new();
    for (index, slot) in slots.iter().enumerate().filter(|(_, slot)| &*slot.place.topic == topic) {
        let Ok(number) = usize::try_from(slot.place.partition) else {
            continue;
        };
        if by_partition.len() <= number {
            by_partition.resize(number + 1, None);
        }
        by_partition[number] = Some(index);
    }
    by_partition
}
