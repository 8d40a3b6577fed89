//! Two generations of one view, and an operator who activates one and the other while answers, data and time are lost:
//! readers see one commit of one generation at a time, a generation that was set aside never publishes again, and
//! once the faults end the one that was chosen last is shown (P6, P7, P8).

use proptest::prelude::*;

use crate::cases;
use crate::chaos::{Act, Node, Watch, acts, sizes, world};
use crate::history::{changes, number};
use crate::support::OBJECT;

const NAMES: [&str; 2] = ["1", "2"];

fn activate(watch: &mut Watch<'_>, node: usize, nodes: &mut [&mut dyn Node]) {
    let others: Vec<&str> = NAMES.iter().copied().filter(|name| *name != NAMES[node]).collect();
    watch.activations += 1;
    nodes[node].activate(watch.activations, &others);
    watch.live = Some(node);
    watch.forget_owner();
}

/// The generation that is shown, and by which activation.
fn shown(watch: &Watch<'_>) -> Option<(String, u64)> {
    let mut meta = watch.world.store.meta(OBJECT);
    let activation = meta.remove("activation")?.parse().expect("a number");
    Some((meta.remove("generation")?, activation))
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn p6_p7_p8_of_two_generations_the_one_that_was_chosen_is_shown_whole(
        changes in changes(0..40),
        acts in acts(2),
        // After so many acts an operator chooses a generation.
        choices in proptest::collection::vec((0..40_usize, 0..2_usize), 0..5),
        sizes in sizes(),
    ) {
        let mut world = world(sizes);
        world.second_is_candidate = true;
        let mut watch = Watch::new(&world, number(&changes, 1, false), 2);
        world.run_on("first", |first| {
            world.run_on("second", |second| {
                watch.note_state(0, first);
                watch.note_state(1, second);
                let nodes: &mut [&mut dyn Node] = &mut [first, second];
                activate(&mut watch, 0, nodes);
                // The activation that each knows of; 0 is none.
                let mut known = [1, 0];
                for (at, act) in acts.iter().enumerate() {
                    for (_, node) in choices.iter().filter(|(when, _)| *when == at) {
                        activate(&mut watch, *node, nodes);
                        known[*node] = watch.activations;
                    }
                    // A candidate has no publisher before it is chosen; one that was set aside may not know it yet.
                    if let Act::Step(node) | Act::BusyStep(node) = act
                        && known[*node] == 0
                    {
                        continue;
                    }
                    let before = shown(&watch);
                    watch.act(act, nodes);
                    // A step of one that was set aside changes nothing of what a later choice shows.
                    if let Act::Step(node) | Act::BusyStep(node) = act
                        && watch.live != Some(*node)
                        && before.as_ref().is_some_and(|(name, activation)| {
                            name != NAMES[*node] && *activation >= known[*node]
                        })
                    {
                        assert_eq!(shown(&watch), before, "P7: set aside, and published");
                    }
                }
                watch.end_faults();
                watch.heal(nodes);
                let live = watch.live.map(|live| (NAMES[live].to_owned(), watch.activations));
                assert_eq!(shown(&watch), live);
            });
        });
    }
}
