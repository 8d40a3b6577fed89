//! The raw side of reading: librdkafka's batch queue, which hands over thousands of records a call where the
//! Rust wrapper makes an event of each. All `unsafe` of the Kafka side is here and in
//! `topics`; nothing here decides anything.
//!
//! Why it is sound:
//! - The consumer queue, every message, list and question are made from the client that this module owns, and
//!   are given back before that client is destroyed (see `Drop`; the client is dropped after the body).
//! - Messages are held in [`NativeConsumer::batch`] alone, and each is destroyed once: when it has been
//!   passed over, or with the rest of the batch. The borrow of [`NativeConsumer::next`] ends before that.
//! - Callbacks run on the thread that polls. They only touch the [`Witness`], which the client keeps alive.
//! - Error codes are read as integers: a broker may send one that the generated enum does not have.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaRespErr, RDKafkaType};

use super::topics::{self, Answer, INVALID, Question, TIMED_OUT, UNKNOWN};
use super::trouble::{self, Code};
use crate::pure::formats::Header;
use crate::pure::seq::TopicPartition;

/// An error that concerns the connection as a whole.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub code: Code,
    pub reason: String,
}

/// Keeps what librdkafka reports aside of the records.
#[derive(Default)]
pub(super) struct Witness {
    reports: Mutex<Reports>,
}

#[derive(Default)]
struct Reports {
    /// The last of each code since they were taken.
    fresh: Vec<Noted>,
    /// Why the connection fails, kept until it works again: librdkafka repeats that all brokers are down, but
    /// not the reason.
    cause: Option<Noted>,
}

impl Witness {
    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, noted: Noted) {
        let mut reports = self.reports();
        if !noted.code.is(RDKafkaErrorCode::AllBrokersDown) {
            reports.cause = Some(noted.clone());
        }
        reports.fresh.retain(|other| other.code != noted.code);
        reports.fresh.push(noted);
    }

    fn take(&self) -> Vec<Noted> {
        std::mem::take(&mut self.reports().fresh)
    }

    /// Why the connection failed last, unless it has worked since.
    pub(super) fn cause(&self) -> Option<Noted> {
        self.reports().cause.clone()
    }

    pub(super) fn forget_cause(&self) {
        self.reports().cause = None;
    }
}

impl ClientContext for Witness {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        trouble::log_line(level, facility, line);
    }
}

/// A message of the batch: a record, or an error with its place.
pub(super) struct NativeMessage<'a> {
    pub code: Code,
    /// Names the topic for as long as the assignment stands; 0 where there is none.
    pub topic_handle: usize,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<&'a [u8]>,
    /// The value of a record, or the text of an error.
    pub value: Option<&'a [u8]>,
    message: &'a native::rd_kafka_message_t,
}

impl NativeMessage<'_> {
    pub(super) fn timestamp_ms(&self) -> Option<i64> {
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive, and `kind` is a valid place for the answer.
        let at = unsafe { native::rd_kafka_message_timestamp(self.message, &mut kind) };
        (at >= 0).then_some(at)
    }

    /// The headers, in their order.
    pub(super) fn headers(&self) -> Vec<Header> {
        let mut list = ptr::null_mut();
        // SAFETY: the message is alive; librdkafka wants it to parse its headers.
        let code = unsafe { native::rd_kafka_message_headers(self.message, &mut list) };
        if code as i32 != 0 {
            return Vec::new();
        }
        let mut headers = Vec::new();
        loop {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the list lives as long as the message; the places for the answer are valid.
            let code = unsafe {
                native::rd_kafka_header_get_all(list, headers.len(), &mut name, &mut value, &mut length)
            };
            if code as i32 != 0 || name.is_null() {
                return headers;
            }
            // SAFETY: a name is a C string, a value `length` bytes; both live as long as the list.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, length)) };
            headers.push(Header { name: name.to_string_lossy().into(), value: value.map(Into::into) });
        }
    }

    pub(super) fn topic_name(&self) -> Option<&str> {
        if self.message.rkt.is_null() {
            return None;
        }
        // SAFETY: a message holds its topic, whose name is a C string that lives as long.
        let name = unsafe { CStr::from_ptr(native::rd_kafka_topic_name(self.message.rkt)) };
        name.to_str().ok()
    }

    pub(super) fn error_text(&self) -> String {
        match self.value {
            Some(text) if !text.is_empty() => String::from_utf8_lossy(text).into_owned(),
            _ => self.code.text(),
        }
    }
}

/// A consumer of librdkafka without the wrapper's event loop.
pub(super) struct NativeConsumer {
    batch: Vec<*mut native::rd_kafka_message_t>,
    /// The first message of the batch that has not been passed over.
    at: usize,
    queue: NonNull<native::rd_kafka_queue_t>,
    question: Option<Question>,
    /// Partitions were assigned once; see [`has_assigned`](NativeConsumer::has_assigned).
    has_assigned: bool,
    client: Client<Witness>,
}

// SAFETY: librdkafka's handles may be used from any thread; the messages are owned by this value alone.
unsafe impl Send for NativeConsumer {}

/// Messages that one call hands over at most: what a caller asks for beyond it comes with the next.
const BATCH_MAX: usize = 100_000;

impl NativeConsumer {
    pub(super) fn open(config: &ClientConfig) -> KafkaResult<Self> {
        let prepared = config.create_native_config()?;
        // SAFETY: the configuration is alive; the callbacks match the signatures asked for. The opaque
        // pointer that `on_error` gets is set by `Client::new` to the witness, which the client holds.
        unsafe {
            native::rd_kafka_conf_set_error_cb(prepared.ptr(), Some(on_error));
            native::rd_kafka_conf_set_log_cb(prepared.ptr(), Some(on_log));
        }
        let client = Client::new(config, prepared, RDKafkaType::RD_KAFKA_CONSUMER, Witness::default())?;
        // SAFETY: the client is a live consumer.
        let queue = unsafe { native::rd_kafka_queue_get_consumer(client.native_ptr()) };
        let queue = NonNull::new(queue)
            .ok_or_else(|| KafkaError::ClientCreation("no consumer queue: group.id is empty".into()))?;
        Ok(NativeConsumer { batch: Vec::new(), at: 0, queue, question: None, has_assigned: false, client })
    }

    pub(super) fn client(&self) -> &Client<Witness> {
        &self.client
    }

    /// Runs the callbacks that wait, and gives what they noted.
    pub(super) fn serve(&self) -> Vec<Noted> {
        // SAFETY: the main queue is not forwarded to the consumer's, so polling it is allowed.
        while unsafe { native::rd_kafka_poll(self.client.native_ptr(), 0) } > 0 {}
        self.client.context().take()
    }

    /// Reads these partitions from these offsets and nothing else. What was read ahead is dropped.
    pub(super) fn assign(&mut self, from: &[(TopicPartition, i64)]) -> Result<(), Code> {
        let list = partition_list(from)?;
        self.has_assigned |= !from.is_empty();
        // SAFETY: client and list are alive; the list is copied.
        let code = unsafe { native::rd_kafka_assign(self.client.native_ptr(), list.ptr()) };
        done(code)
    }

    /// Whether partitions have been assigned since the client was made, taken back or not.
    pub(super) fn has_assigned(&self) -> bool {
        self.has_assigned
    }

    pub(super) fn commit_without_waiting(&self, next: &[(TopicPartition, i64)]) -> Result<(), Code> {
        let list = partition_list(next)?;
        // SAFETY: client and list are alive; the list is copied.
        let code = unsafe { native::rd_kafka_commit(self.client.native_ptr(), list.ptr(), 1) };
        done(code)
    }

    /// The first offset of a record that is not older than `timestamp_ms`; `None` where all are.
    pub(super) fn offset_at(
        &self,
        place: &TopicPartition,
        timestamp_ms: i64,
        wait: Duration,
    ) -> Result<Option<i64>, Code> {
        let list = partition_list(&[(place.clone(), timestamp_ms)])?;
        let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: client and list are alive; the answer is written into the list.
        let code =
            unsafe { native::rd_kafka_offsets_for_times(self.client.native_ptr(), list.ptr(), wait_ms) };
        done(code)?;
        let answered = list.elements().first().map(|element| element.offset());
        Ok(answered.and_then(|offset| match offset {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }))
    }

    /// Forgets the messages that have not been passed over.
    pub(super) fn clear(&mut self) {
        for message in self.batch.drain(..).skip(self.at) {
            // SAFETY: messages from `at` on have not been destroyed yet, and are not used again.
            unsafe { native::rd_kafka_message_destroy(message) };
        }
        self.at = 0;
    }

    /// Whether the batch has been passed over to its end.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.batch.len()
    }

    /// Takes what is there, up to `most` messages; only where nothing is, waits up to `wait` for the first.
    pub(super) fn fill(&mut self, most: usize, wait: Duration) {
        self.clear();
        let most = most.clamp(1, BATCH_MAX);
        self.batch.reserve(most);
        self.take(most, 0);
        if self.batch.is_empty() && !wait.is_zero() {
            // The call waits until it has as many as it was asked for: so for one, then for no more.
            let wait_ms = wait.as_micros().div_ceil(1_000);
            self.take(1, c_int::try_from(wait_ms).unwrap_or(c_int::MAX));
            if !self.batch.is_empty() {
                self.take(most - 1, 0);
            }
        }
    }

    fn take(&mut self, most: usize, wait_ms: c_int) {
        let held = self.batch.len();
        debug_assert!(self.batch.capacity() - held >= most);
        if most == 0 {
            return;
        }
        // SAFETY: `fill` reserved room for `most` pointers behind those held; the call writes as many as it
        // returns (or -1 and none), and each is then ours to destroy.
        unsafe {
            let free = self.batch.as_mut_ptr().add(held);
            let count = native::rd_kafka_consume_batch_queue(self.queue.as_ptr(), wait_ms, free, most);
            self.batch.set_len(held + usize::try_from(count).unwrap_or(0));
        }
    }

    /// The next message of the batch, passed over once `see` returns.
    pub(super) fn next<T>(&mut self, see: impl FnOnce(NativeMessage<'_>) -> T) -> Option<T> {
        let pointer = *self.batch.get(self.at)?;
        // Destroys the message also when `see` unwinds.
        let passed = Passed(pointer);
        self.at += 1;
        // SAFETY: the message is alive until `passed` is dropped, which is after `see` returned.
        let message = unsafe { &*passed.0 };
        // SAFETY: the enum is `repr(i32)`; read as an integer it cannot be invalid.
        let code = Code(unsafe { ptr::from_ref(&message.err).cast::<i32>().read() });
        Some(see(NativeMessage {
            code,
            topic_handle: message.rkt as usize,
            partition: message.partition,
            offset: message.offset,
            key: bytes(message.key, message.key_len),
            value: bytes(message.payload, message.len),
            message,
        }))
    }

    /// The partitions that a topic has now.
    pub(super) fn partitions_of(&self, topic: &str, wait: Duration) -> Result<Vec<i32>, Code> {
        // SAFETY: the client is alive.
        unsafe { topics::partitions_of(self.client.native_ptr(), topic, wait) }
    }

    /// Asks for the ids of these topics, in place of a question that is still open.
    pub(super) fn ask_topics(&mut self, topics: &[&str], wait: Duration) -> Result<(), Code> {
        // SAFETY: the client is alive, and the question is dropped before it (see `Drop`).
        let question = unsafe { Question::ask(self.client.native_ptr(), topics, wait) }?;
        self.question = Some(question);
        Ok(())
    }

    pub(super) fn has_asked_topics(&self) -> bool {
        self.question.is_some()
    }

    /// What was answered to the open question, waiting up to `wait` for it.
    pub(super) fn topics_answer(&mut self, wait: Duration) -> Option<Answer> {
        let answer = self.question.as_ref()?.answer(wait)?;
        self.question = None;
        Some(answer)
    }

    /// The id of one topic.
    pub(super) fn topic_id(&mut self, name: &str, wait: Duration) -> Result<Option<String>, Code> {
        self.ask_topics(&[name], wait)?;
        // librdkafka itself ends the question after `wait`; a little more, so that its reason is heard.
        let answer = self.topics_answer(wait + Duration::from_millis(500));
        self.question = None;
        match answer.unwrap_or(Err(TIMED_OUT))?.into_iter().next() {
            Some(Ok(topic)) => Ok(topic.id),
            Some(Err((_, code))) => Err(code),
            None => Err(UNKNOWN),
        }
    }
}

impl Drop for NativeConsumer {
    fn drop(&mut self) {
        self.clear();
        self.question = None;
        // SAFETY: the queue handle is ours, and the client that it belongs to is dropped after this body.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// Destroys one message.
struct Passed(*mut native::rd_kafka_message_t);

impl Drop for Passed {
    fn drop(&mut self) {
        // SAFETY: made only in `next`, once for each message, which is not used after.
        unsafe { native::rd_kafka_message_destroy(self.0) };
    }
}

/// A null pointer is null; a length of 0 behind any other is empty.
fn bytes<'a>(from: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: librdkafka gives `length` readable bytes that live as long as their message.
    (!from.is_null()).then(|| unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) })
}

fn done(code: RDKafkaRespErr) -> Result<(), Code> {
    match code as i32 {
        0 => Ok(()),
        code => Err(Code(code)),
    }
}

fn partition_list(from: &[(TopicPartition, i64)]) -> Result<TopicPartitionList, Code> {
    let mut list = TopicPartitionList::with_capacity(from.len());
    for (place, offset) in from {
        list.add_partition_offset(&place.topic, place.partition, Offset::Offset(*offset))
            .map_err(|_| INVALID)?;
    }
    Ok(list)
}

unsafe extern "C" fn on_error(
    _client: *mut native::rd_kafka_t,
    code: c_int,
    reason: *const c_char,
    witness: *mut c_void,
) {
    if witness.is_null() || reason.is_null() {
        return;
    }
    // SAFETY: the opaque pointer is the client's witness; the reason is a C string that lives for the call.
    let (witness, reason) = unsafe { (&*witness.cast::<Witness>(), CStr::from_ptr(reason)) };
    witness.note(Noted { code: Code(code), reason: reason.to_string_lossy().into_owned() });
}

unsafe extern "C" fn on_log(
    _client: *const native::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    if facility.is_null() || line.is_null() {
        return;
    }
    // SAFETY: both are C strings that live for the call.
    let (facility, line) = unsafe { (CStr::from_ptr(facility), CStr::from_ptr(line)) };
    let level = match level {
        ..=3 => RDKafkaLogLevel::Error,
        4 => RDKafkaLogLevel::Warning,
        5 | 6 => RDKafkaLogLevel::Info,
        _ => RDKafkaLogLevel::Debug,
    };
    trouble::log_line(level, &facility.to_string_lossy(), &line.to_string_lossy());
}
