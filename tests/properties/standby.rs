//! Who publishes, and what a publisher mends at once: single stories that random ones tell too seldom (P7, P8).

use driftless::io::twin::view_store::Fault;

use crate::chaos::{Node, Watch, world};
use crate::history::plain;
use crate::support::OBJECT;
use crate::support::world::{BEAT_MS, Sizes, TAKEOVER_MS};

/// Two bases of one log, both read to its end, the first one publishing.
fn two_bases(body: impl FnOnce(&mut Watch<'_>, &mut dyn Node, &mut dyn Node)) {
    let world = world(Sizes::default());
    let history = (1..=3).map(plain).collect();
    world.run_on("first", |first| {
        world.run_on("second", |second| {
            let mut watch = Watch::new(&world, history, 2);
            watch.note_state(0, first);
            watch.note_state(1, second);
            watch.append(2);
            watch.ingest(0, first);
            watch.ingest(1, second);
            watch.step(0, first);
            body(&mut watch, first, second);
            world.clock.advance(TAKEOVER_MS);
            watch.heal(&mut [first, second]);
        });
    });
}

/// Whose state is shown.
fn nonce(watch: &Watch<'_>) -> String {
    watch.world.store.meta(OBJECT)["nonce"].clone()
}

#[test]
fn p7_a_standby_takes_over_once_the_beat_stands_still_and_not_before() {
    two_bases(|watch, first, second| {
        let (clock, before) = (watch.world.clock.clone(), nonce(watch));
        // 1. While the first one lives, the second one waits, however long.
        for _ in 0..20 {
            clock.advance(BEAT_MS);
            watch.step(0, first);
            watch.step(1, second);
        }
        // 2. The first one is silent; the second one counts from when it saw the last beat.
        clock.advance(TAKEOVER_MS - 1);
        watch.step(1, second);
        assert_eq!(nonce(watch), before, "not before");
        clock.advance(1);
        watch.step(1, second);
        assert_ne!(nonce(watch), before);
        assert_eq!(watch.takeovers, 1);
        // 3. The first one comes back: it is the standby now, and what it had in mind is refused.
        let taken = watch.world.store.meta(OBJECT);
        watch.append(1);
        watch.ingest(0, first);
        for _ in 0..3 {
            watch.step(0, first);
        }
        assert_eq!(watch.world.store.meta(OBJECT), taken);
    });
}

#[test]
fn p7_a_standby_that_is_behind_what_is_shown_does_not_take_over() {
    two_bases(|watch, first, second| {
        let before = nonce(watch);
        watch.append(1);
        watch.ingest(0, first);
        watch.step(0, first);
        for _ in 0..4 {
            watch.step(1, second);
            watch.world.clock.advance(TAKEOVER_MS);
        }
        assert_eq!(nonce(watch), before, "it would show less than readers have seen");
        watch.ingest(1, second);
        watch.step(1, second);
        assert_ne!(nonce(watch), before);
    });
}

#[test]
fn p7_time_without_a_reachable_store_does_not_count_towards_a_takeover() {
    two_bases(|watch, first, second| {
        let (clock, store, before) = (watch.world.clock.clone(), watch.world.store.clone(), nonce(watch));
        watch.step(1, second);
        // Nobody can beat now, so that a beat stands still says nothing.
        store.set_reachable(false);
        for _ in 0..10 {
            clock.advance(BEAT_MS);
            watch.step(0, first);
            watch.step(1, second);
        }
        store.set_reachable(true);
        watch.step(1, second);
        assert_eq!(nonce(watch), before, "the first one had no chance to beat");
        watch.step(0, first);
        clock.advance(BEAT_MS);
        watch.step(0, first);
        watch.step(1, second);
        assert_eq!(nonce(watch), before);
    });
}

#[test]
fn p7_a_store_that_counts_beats_from_the_start_again_is_not_taken_for_one_that_stands_still() {
    two_bases(|watch, first, second| {
        let (clock, store, before) = (watch.world.clock.clone(), watch.world.store.clone(), nonce(watch));
        let beat = store.meta(OBJECT).remove("beat");
        watch.step(1, second);
        store.flush_all();
        clock.advance(TAKEOVER_MS);
        // The first one is told, and publishes anew: the same number of beats, and it lives.
        watch.step(0, first);
        watch.step(0, first);
        assert_eq!(store.meta(OBJECT).remove("beat"), beat);
        watch.step(1, second);
        assert_eq!(nonce(watch), before);
    });
}

#[test]
fn p8_a_publisher_mends_what_its_own_lost_answer_left_unfinished_whatever_else_is_broken() {
    let mut world = world(Sizes::default());
    world.sizes.groups_per_script_max = 1;
    world.run(|running| {
        let mut watch = Watch::new(&world, (1..=6).map(plain).collect(), 1);
        watch.note_state(0, running);
        watch.append(1);
        watch.ingest(0, running);
        watch.step(0, running);
        watch.append(usize::MAX);
        watch.ingest(0, running);
        // Begin and two parts arrive; the answer of the second is lost, and then an index entry.
        world.store.fail_nth(2, Fault::AfterEffect);
        watch.step(0, running);
        assert_eq!(world.meta()["mixed"], "1");
        let entry = world.index()[0].clone();
        world.store.delete_index_entry(OBJECT, &entry);
        // No time passes: what is unfinished does not wait for a beat.
        for _ in 0..3 {
            watch.step(0, running);
        }
        assert_eq!(world.meta()["mixed"], "0");
        assert_eq!(world.published(), watch.oracles[0].published());
        watch.heal(&mut [running]);
    });
}
