//! Asks the brokers what a topic is: which partitions it has, and its id, by which a topic that was deleted
//! and made anew under the same name is told from the old one. Must not know what follows from that.
//!
//! Raw calls, because the wrapper has none for ids, and its metadata call for one topic gives the topic
//! handle back before librdkafka has read the name from it. Asking for ids and answering are apart, so that a
//! reader can ask without waiting.

use std::ffi::{CStr, CString, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::types::{RDKafka, RDKafkaRespErr};

use super::trouble::Code;

/// Which topic goes by a name now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    pub name: String,
    /// As Kafka's tools show it; `None` from brokers that have no ids (before 2.8).
    pub id: Option<String>,
}

/// How brokers without topic ids show them.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

pub(super) const INVALID: Code = Code(RDKafkaRespErr::RD_KAFKA_RESP_ERR__INVALID_ARG as i32);
pub(super) const TIMED_OUT: Code = Code(RDKafkaRespErr::RD_KAFKA_RESP_ERR__TIMED_OUT as i32);
pub(super) const UNKNOWN: Code = Code(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32);

/// The partitions that a topic has now.
///
/// # Safety
/// `client` must be alive.
pub(super) unsafe fn partitions_of(
    client: *mut RDKafka,
    topic: &str,
    wait: Duration,
) -> Result<Vec<i32>, Code> {
    let name = CString::new(topic).map_err(|_| INVALID)?;
    let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the topic handle lives until after the request, the answer until after it has been copied;
    // both are given back on every path.
    unsafe {
        let handle = native::rd_kafka_topic_new(client, name.as_ptr(), ptr::null_mut());
        if handle.is_null() {
            return Err(INVALID);
        }
        let mut answer: *const native::rd_kafka_metadata = ptr::null();
        let code = native::rd_kafka_metadata(client, 0, handle, &mut answer, wait_ms);
        native::rd_kafka_topic_destroy(handle);
        if code as i32 != 0 {
            return Err(Code(code as i32));
        }
        let found = read_partitions(&*answer);
        native::rd_kafka_metadata_destroy(answer);
        found
    }
}

/// Copies the partition numbers of the one topic asked for.
///
/// # Safety
/// `answer` must come from `rd_kafka_metadata` and not have been given back.
unsafe fn read_partitions(answer: &native::rd_kafka_metadata) -> Result<Vec<i32>, Code> {
    if answer.topic_cnt < 1 || answer.topics.is_null() {
        return Err(UNKNOWN);
    }
    // SAFETY: `topics` holds `topic_cnt` (at least one) entries; the code is read as an integer.
    let (topic, code) = unsafe {
        let topic = answer.topics;
        let code = ptr::addr_of!((*topic).err).cast::<i32>().read();
        (topic, code)
    };
    if code != 0 {
        return Err(Code(code));
    }
    // SAFETY: `partitions` holds `partition_cnt` entries; only their ids are read.
    unsafe {
        let count = usize::try_from((*topic).partition_cnt).unwrap_or(0);
        let first = (*topic).partitions;
        Ok((0..count).map(|index| ptr::addr_of!((*first.add(index)).id).read()).collect())
    }
}

/// A question under way. Must be dropped before the client that it was asked through.
pub(super) struct Question {
    queue: NonNull<native::rd_kafka_queue_t>,
}

/// One entry for each topic asked about, with the topic's name where it failed.
pub(super) type Answer = Result<Vec<Result<Topic, (String, Code)>>, Code>;

impl Question {
    /// # Safety
    /// `client` must be alive, and outlive the question.
    pub(super) unsafe fn ask(client: *mut RDKafka, topics: &[&str], wait: Duration) -> Result<Self, Code> {
        let names: Vec<CString> =
            topics.iter().map(|name| CString::new(*name).map_err(|_| INVALID)).collect::<Result<_, _>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the names outlive the collection, which copies them, as the request copies collection and
        // options; what was made is given back. A time-out that is refused leaves the default.
        unsafe {
            let queue = NonNull::new(native::rd_kafka_queue_new(client)).ok_or(INVALID)?;
            let collection =
                native::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            let options = native::rd_kafka_AdminOptions_new(
                client,
                native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            );
            native::rd_kafka_AdminOptions_set_request_timeout(options, wait_ms, ptr::null_mut(), 0);
            native::rd_kafka_DescribeTopics(client, collection, options, queue.as_ptr());
            native::rd_kafka_AdminOptions_destroy(options);
            native::rd_kafka_TopicCollection_destroy(collection);
            Ok(Question { queue })
        }
    }

    /// The answer, waiting up to `wait` for it; it comes once.
    pub(super) fn answer(&self, wait: Duration) -> Option<Answer> {
        let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is ours. The event is given back after its content has been copied.
        unsafe {
            let event = native::rd_kafka_queue_poll(self.queue.as_ptr(), wait_ms);
            if event.is_null() {
                return None;
            }
            let answer = read_answer(event);
            native::rd_kafka_event_destroy(event);
            Some(answer)
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; an answer that comes later is dropped by librdkafka.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// # Safety
/// `event` must be alive.
unsafe fn read_answer(event: *mut native::rd_kafka_event_t) -> Answer {
    // SAFETY: results and topics belong to the event; librdkafka gives `count` pointers at `topics`.
    unsafe {
        let code = Code(native::rd_kafka_event_error(event) as i32);
        if code != Code(0) {
            return Err(code);
        }
        let result = native::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err(INVALID);
        }
        let mut count = 0;
        let topics = native::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        Ok((0..count).map(|index| read_topic(*topics.add(index))).collect())
    }
}

/// # Safety
/// `topic` must belong to an event that is alive.
unsafe fn read_topic(topic: *const native::rd_kafka_TopicDescription_t) -> Result<Topic, (String, Code)> {
    // SAFETY: name, error and id belong to the topic; name and id are C strings.
    unsafe {
        let name = CStr::from_ptr(native::rd_kafka_TopicDescription_name(topic));
        let name = name.to_string_lossy().into_owned();
        let error = native::rd_kafka_TopicDescription_error(topic);
        let code = Code(native::rd_kafka_error_code(error) as i32);
        if code != Code(0) {
            return Err((name, code));
        }
        let id = native::rd_kafka_Uuid_base64str(native::rd_kafka_TopicDescription_topic_id(topic));
        let id = (!id.is_null()).then(|| CStr::from_ptr(id).to_string_lossy());
        Ok(Topic {
            name,
            id: id
                .map(|id| id.replace('+', "-").replace('/', "_"))
                .filter(|id| id != NO_ID && !id.is_empty()),
        })
    }
}
