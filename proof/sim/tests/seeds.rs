//! Seeds that run with every test; `cargo xtask sim` runs many more.

use sim::{
    Bounds, Timing, World, run, run_cluster, run_conformance, run_with, run_without_notes,
    run_without_reservations,
};

#[test]
fn a_seed_gives_the_same_run_twice() {
    for world in World::all() {
        for bounds in [Bounds::Drawn, Bounds::Measured] {
            let runs = [1, 1, 2].map(|seed| run_with(world, seed, bounds).unwrap());
            assert_eq!(runs[0], runs[1], "{}", world.name());
            assert_ne!(runs[0].trace, runs[2].trace, "{}", world.name());
        }
    }
}

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for world in World::all() {
        for seed in 100..104 {
            run(world, seed).unwrap();
        }
    }
}

#[test]
fn lost_and_misdirected_writes_are_detected() {
    let write_faults: u64 = (200..206).map(|seed| run(World::LostWrites, seed).unwrap().write_faults).sum();
    assert!(write_faults > 100, "{write_faults}");
}

/// The subject of these worlds occurs in few seeds.
#[test]
fn writes_are_refused_for_every_lack_of_space_and_drives_come_and_go() {
    let sum = |world: World, seeds: [u64; 3]| {
        seeds.into_iter().fold(sim::Report::default(), |mut sum, seed| {
            sum.add(&run(world, seed).unwrap());
            sum
        })
    };
    let full = sum(World::OutOfSpace, [10, 12, 16]).refusals;
    assert!(full.log > 0 && full.capacity > 0 && full.map_pages > 0, "{full:?}");
    let changed = sum(World::DriveChanges, [0, 1, 2]);
    let counts =
        [changed.drives_added, changed.evacuations, changed.drives_failed, changed.refusals.capacity];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// The file system under the drives was measured once a second, and the array filled it in between: no space was left
/// for cleaning, and unmapping freed none.
#[test]
fn an_array_leaves_room_for_cleaning_in_the_file_system_under_it() {
    for seed in [11, 28] {
        run(World::OutOfSpace, seed).unwrap();
    }
}

/// A target began a point that was not durable on its source, and that a crash removed: the next one had its number,
/// and was always refused.
#[test]
fn a_point_is_transferred_once_it_is_durable() {
    run(World::Replication, 40_000_704).unwrap();
}

/// The ends of small segments, too short for a frame, counted as space for data.
#[test]
fn a_full_array_takes_unmaps() {
    run(World::OutOfSpace, 55).unwrap();
}

/// A scrub held a segment and kept to its rate, while a checkpoint waited to write to it.
#[test]
fn a_checkpoint_does_not_wait_for_the_rate_of_a_scrub() {
    run(World::LostWrites, 103).unwrap();
}

/// The cleaning victim had no room to be moved to, and no checkpoint freed the segments with metadata alone.
#[test]
fn an_emptied_array_has_space() {
    run(World::OutOfSpace, 23).unwrap();
}

/// References of deleted blocks that waited for a page of the frame table held all the space of a small array.
#[test]
fn an_array_gets_the_space_back_that_deferred_references_hold() {
    run(World::OutOfSpace, 500_000_110).unwrap();
}

/// An operation needed the exact free space once more while the background was idle.
#[test]
fn the_background_is_told_that_free_space_is_to_be_known_exactly() {
    run(World::OutOfSpace, 500_000_320).unwrap();
}

/// A block could not be flushed for lack of space, and an unmap waited for the memory that the block held.
#[test]
fn what_frees_space_does_not_wait_for_data_that_have_none() {
    run(World::DriveChanges, 500_000_001).unwrap();
}

/// Checkpoints between two rounds of cleaning used the space that these freed, and cleaning was given up.
#[test]
fn cleaning_goes_on_while_checkpoints_use_what_it_gains() {
    run(World::Array, 500_000_682).unwrap();
}

/// A list of copies had an empty segment beyond the end of a volume that had been restored to a smaller size.
#[test]
fn a_copy_of_no_blocks_lies_within_its_volumes() {
    run(World::DriveFailures, 500_001_237).unwrap();
}

/// Checkpoints used the space of every round of cleaning: an idle array that was nearly full rewrote its segments
/// forever.
#[test]
fn cleaning_ends_when_it_gains_nothing_over_all() {
    run(World::DriveChanges, 600_000_105).unwrap();
    run(World::DriveChanges, 600_000_412).unwrap();
    run(World::Rados, 600_003_011).unwrap();
}

/// Several waiting copies gave up their places to read a page, and evicted each other's pages forever.
#[test]
fn an_operation_that_reads_a_page_keeps_its_place_in_the_queue() {
    run(World::Rados, 810_000_114).unwrap();
    run(World::Rados, 810_001_290).unwrap();
}

#[test]
fn images_are_made_and_kept() {
    let images: u64 = (300..310).map(|seed| run(World::Management, seed).unwrap().images).sum();
    assert!(images > 10, "{images}");
}

/// A repair returned pages that waited to be released to the page index, or took them and their references for defects;
/// a volume without its end could not grow there without errors. An array that was stopped before the first creation
/// did not open.
#[test]
fn a_repair_changes_nothing_that_is_sound_and_leaves_nothing_to_find() {
    for seed in [1001, 1003, 1013, 1022, 1111, 1281, 1681, 1848, 2274, 2443] {
        run(World::Repair, seed).unwrap();
    }
    let sum = (1056..1068).fold(sim::Report::default(), |mut sum, seed| {
        sum.add(&run(World::Repair, seed).unwrap());
        sum
    });
    assert!(sum.repairs > sum.losses && sum.losses > 0, "{sum:?}");
}

/// A full array waited for a rebuild at the lowest rate.
#[test]
fn a_rebuild_at_the_lowest_rate_ends() {
    run(World::DriveChanges, 400_000_160).unwrap();
}

/// A takeover interrupted by a crash continued in the cluster, and fenced the next owner.
#[test]
fn an_owner_that_is_fenced_while_it_opens_opens_again() {
    run(World::Rados, 500_000_305).unwrap();
}

#[test]
fn the_store_keeps_its_contract_over_power_losses() {
    for drives in [1, 3, 5] {
        for seed in 0..3 {
            run_conformance(seed, drives)
                .unwrap_or_else(|what| panic!("{drives} drives, seed {seed}: {what}"));
        }
    }
}

#[test]
fn a_failure_prints_the_command_that_reproduces_it() {
    for bounds in [Bounds::Drawn, Bounds::DrawnEngine, Bounds::Measured] {
        let failure =
            sim::Failure { world: World::BitRot, seed: 7, bounds, what: "something was lost".into() };
        let command =
            format!("cargo xtask sim --world bit-rot --bounds {} --from 7 --seeds 1", bounds.name());
        assert!(failure.to_string().ends_with(&command), "{failure}");
        assert_eq!(Bounds::by_name(bounds.name()), Some(bounds));
    }
}

#[test]
fn worlds_have_their_names_and_those_of_older_seeds() {
    let old = [("full", "out-of-space"), ("rot", "bit-rot"), ("dead", "drive-failures")];
    for (old, name) in old.into_iter().chain([("kept", "retention"), ("lies", "lost-writes")]) {
        assert_eq!(World::by_name(old).map(World::name), Some(name));
    }
    assert!(World::all().all(|world| World::by_name(world.name()) == Some(world)));
}

/// A lease that exceeds the time after which others act is found: two controllers answer at once.
#[test]
fn leases_that_are_too_long_are_found() {
    let timing = Timing { lease_ns: 4_500_000_000, ..Timing::PRODUCT };
    assert!(!timing.is_safe());
    let found = (0..100).find_map(|seed| run_cluster(seed, timing).err().map(|what| (seed, what)));
    let (seed, what) = found.expect("a seed that finds it");
    assert!(what.contains("a read that began"), "{what}");
    run_cluster(seed, Timing::PRODUCT).unwrap();
}

#[test]
fn another_controller_takes_over_in_time() {
    let mut sum = sim::Report::default();
    (0..20).for_each(|seed| sum.add(&run(World::Cluster, seed).unwrap()));
    assert!(sum.takeovers > 5, "{sum:?}");
    assert!((3000..6000).contains(&sum.longest_takeover_ms), "{sum:?}");
}

/// Runs a seed with the limits and the scheduling of the time at which it was found.
fn as_found(world: World, seed: u64) -> Result<sim::Report, sim::Failure> {
    run_with(world, seed, Bounds::Measured)
}

/// Hosts overwrote data that had been flushed at the cut of a checkpoint before its map page was written: the page
/// referred to a slot that was no longer stored.
#[test]
fn a_checkpoint_has_the_state_of_its_cut() {
    run_with(World::Array, 121, Bounds::DrawnEngine).unwrap();
}

/// A power cut during formatting tore the first label of a drive.
#[test]
fn interrupted_formatting_is_restarted() {
    for seed in [907, 942, 4815, 4882] {
        as_found(World::Shelf, seed).unwrap();
    }
}

/// Three drives with wrong pages had returned, and the shelf tolerated two failures: the world counted the drives
/// alternately, until all three were removed.
#[test]
fn no_more_drives_fail_than_the_shelf_tolerates() {
    as_found(World::Shelf, 268_011_784).unwrap();
}

/// Two drives had failed, the shelf tolerated a third failure again, and that drive hung: requests waited forever.
#[test]
fn a_drive_that_hangs_is_failed_if_the_others_have_everything() {
    as_found(World::Shelf, 20_768).unwrap();
}

/// The clock jumped while sound drives had requests in flight: one of them counted as a third failed drive.
#[test]
fn a_sound_drive_completes_requests_in_time() {
    as_found(World::Shelf, 61_009_239).unwrap();
}

/// Three drives with wrong pages came back and were used; the world considered them lost.
#[test]
fn drives_that_came_back_are_used() {
    as_found(World::Shelf, 72_002_091).unwrap();
}

/// A power loss tore slot 1 of the superblock; opening wrote slot 0 first, and a second power loss tore that as well.
#[test]
fn a_superblock_survives_two_power_losses() {
    as_found(World::Shelf, 261_001_243).unwrap();
}

/// Two operations shrank a volume concurrently: one found its blocks already removed, and failed.
#[test]
fn concurrent_resizes_of_a_volume_succeed() {
    as_found(World::DriveFailures, 241_000_082).unwrap();
}

/// A copy to a disk that became read-only and to a deleted one may report either reason.
#[test]
fn a_copy_reports_any_reason_for_which_it_is_refused() {
    as_found(World::OutOfSpace, 200_000_637).unwrap();
}

/// A volume was restored to a smaller size that ended within the block of an ORWRITE in progress, which wrote after the
/// end.
#[test]
fn nothing_is_written_after_the_end_of_a_shrunk_volume() {
    as_found(World::OutOfSpace, 266_000_014).unwrap();
}

/// A sync that began before a write completed marked its segment as fully synced: the drive with that write in its
/// cache failed, returned without it, and counted as complete.
#[test]
fn a_sync_covers_writes_that_completed_before_it() {
    as_found(World::Shelf, 98_003_599).unwrap();
}

/// The background slept while durable data had to be flushed; a volume in deletion stayed in the list; a shelf
/// formatted without an engine could not be opened; an empty state had a region.
#[test]
fn regressions_of_the_first_runs_of_the_array() {
    for seed in [43, 54, 61, 65, 84, 91] {
        as_found(World::Array, seed).unwrap();
    }
}

/// Changes in the memory of a stopped engine may be on its drives or not; and a copy needs every disk that it refers
/// to, even for zero blocks.
#[test]
fn changes_in_flight_when_the_array_stops_take_effect_or_not() {
    for seed in [1690, 1691, 1757, 1968, 1999, 50_707] {
        as_found(World::DriveFailures, seed).unwrap();
    }
}

/// All drives had failed, and writes were refused for lack of space instead of with the cause.
#[test]
fn without_drives_the_array_reports_no_lack_of_space() {
    as_found(World::DriveFailures, 99_100_162).unwrap();
}

/// An empty write completed on a volume that had been made writable, which a power loss undid.
#[test]
fn an_empty_write_depends_on_nothing_that_a_power_loss_undoes() {
    as_found(World::DriveFailures, 99_300_446).unwrap();
}

/// A copy was refused because of an unacknowledged change of its target, which a power loss undid.
#[test]
fn a_refusal_depends_on_nothing_that_a_power_loss_undoes() {
    as_found(World::DriveFailures, 61_001_188).unwrap();
}

/// A copy waited while its target became read-only and its source smaller: both are reasons to refuse it.
#[test]
fn a_copy_that_can_be_refused_for_two_reasons_reports_one() {
    as_found(World::BitRot, 700_230).unwrap();
}

/// A disk whose retention had ended was made writable, and was still reported as retained.
#[test]
fn a_writable_disk_is_not_immutable() {
    as_found(World::Retention, 23).unwrap();
}

/// A copy was retried after the disk that performed it had been deleted.
#[test]
fn an_operation_takes_effect_before_the_deletion_of_its_disk_or_never() {
    as_found(World::Array, 20_778_100_654).unwrap();
}

/// The last two drives with a copy of the journal failed together, and the label of the third named none.
#[test]
fn a_label_always_names_the_journal() {
    as_found(World::DriveFailures, 20_184).unwrap();
}

/// Two drives of four failed in turn and came back: a stale P produced forged pages, and where it was refused, it was the
/// only way to reconstruct older rows.
#[test]
fn stale_parity_reconstructs_only_valid_pages() {
    for seed in [20_557, 20_803] {
        as_found(World::DriveFailures, seed).unwrap();
    }
}

/// A superblock in flight at a crash was on a drive that was missing at the next opening, whose owner wrote none.
#[test]
fn an_unacknowledged_superblock_does_not_come_back_with_its_drive() {
    for seed in [42_000_390, 42_000_582, 60_000_676, 60_001_120, 60_001_156, 60_002_282] {
        as_found(World::Shelf, seed).unwrap();
    }
}

/// The power failed while the second labels were written, and again while the first ones were: a drive had none left.
#[test]
fn the_only_valid_label_is_not_written_first() {
    as_found(World::Shelf, 231_001_421).unwrap();
}

/// A copy of the journal was relied on before any label named it.
#[test]
fn a_copy_of_the_journal_counts_when_labels_name_it() {
    as_found(World::Shelf, 231_003_345).unwrap();
}

/// A segment was discarded, two of its drives had failed, and it counted as discarded before the map on the drives did:
/// a third drive was removed, and after a power loss the opening needed the segment.
#[test]
fn a_discarded_segment_counts_until_the_discard_is_durable() {
    as_found(World::Shelf, 264_003_252).unwrap();
}

/// The world synced segments before it had ever written a superblock, which no engine does: the store refused to open.
#[test]
fn segments_are_written_after_the_first_superblock() {
    run(World::Shelf, 91_000_220).unwrap();
}

/// A write was split between journal batches within a map page that it replaced and that was not in memory: the part before
/// the end of the batch replaced that page and kept its reference.
#[test]
fn a_split_write_replaces_a_whole_map_page() {
    for seed in [34, 78] {
        run(World::LargeWrites, seed).unwrap();
    }
}

/// Whichever step of a key change a power loss interrupts, a key that may be in use opens the drives, and no older one,
/// even if a drive has failed or is missing.
#[test]
fn the_key_is_changed_while_hosts_work_and_drives_are_away() {
    let mut sum = sim::Report::default();
    (300..310).for_each(|seed| sum.add(&run(World::Encrypted, seed).unwrap()));
    assert!(sum.key_changes > 20 && sum.drives_failed > 3, "{sum:?}");
}

/// A slow drive is avoided, without effect on hosts.
#[test]
fn a_slow_drive_is_found() {
    let slow: u64 = (0..12).map(|seed| run(World::Array, seed).unwrap().slow_drives).sum();
    assert!(slow > 0);
}

/// Seeds with crashes of both arrays while points are transferred, and with reversals.
#[test]
fn published_points_are_the_source_at_one_moment() {
    let mut sum = sim::Report::default();
    (0..8).for_each(|seed| sum.add(&run(World::Replication, seed).unwrap()));
    assert!(sum.crashes > 8 && sum.operations > 100 && sum.reversals > 3, "{sum:?}");
    assert!(sum.snapshots > 3, "{sum:?}");
}

/// Without the journal's notes, commands that front ends repeat after a crash take effect twice: the world must find
/// that, for COMPARE AND WRITE and for copies.
#[test]
fn a_home_that_does_not_look_commands_up_is_found() {
    for (only_copies, seeds) in [(false, 40), (true, 80)] {
        let outcome = |seed: &u64| run_without_notes(*seed, only_copies);
        let wrong: Vec<String> = (0..seeds).filter_map(|seed| outcome(&seed).err()).collect();
        let sign = if only_copies { "was overwritten, and there is" } else { "Miscompare" };
        let found = wrong.iter().filter(|what| what.contains(sign)).count();
        assert!(found > 1, "{wrong:?}");
    }
}

/// In the seeds that find this, a home that consults the notes does nothing twice.
#[test]
fn front_ends_repeat_commands_that_take_effect_once() {
    for seed in [98, 104, 131, 137, 150, 155, 165] {
        run(World::Takeover, seed).unwrap();
    }
}

/// Crashes interrupt the commit to a new format at any moment, between releases that do and do not know it.
#[test]
fn a_format_is_raised_by_a_commit_alone_and_stays() {
    let mut sum = sim::Report::default();
    (0..40).for_each(|seed| sum.add(&run(World::Upgrade, seed).unwrap()));
    assert!(sum.settled > 10 && sum.crashes > 150 && sum.operations > 1000, "{sum:?}");
}

/// The world finds late writes of a former home if drives accept them.
#[test]
fn drives_that_ignore_reservations_are_found() {
    // In one of twenty seeds, a late write of the former home does harm.
    let mut failures = (0..200).filter_map(|seed| run_without_reservations(seed).err());
    assert!(failures.any(|what| what.contains("acknowledged")));
}

/// An UNMAP of a part of an already unmapped block was acknowledged, although the other array of a synchronous
/// replication lacked the change that had unmapped it, whose own operation was refused.
#[test]
fn a_write_that_finds_what_it_was_to_write_waits_for_the_other_array() {
    run_with(World::Synchronous, 20_006, Bounds::Drawn).unwrap();
}

#[test]
fn a_front_end_reads_what_homes_locate() {
    let mut sum = sim::Report::default();
    (0..6).for_each(|seed| sum.add(&run(World::Located, seed).unwrap()));
    assert!(sum.resolved > 1000 && sum.unresolved > 100, "{sum:?}");
}
