//! Task management for commands in every stage.

use crate::lab_test::*;
use crate::pdu::{FINAL, Header, opcode};
use scsi::{ManagementFunction, ManagementResponse};

const COMPLETE: u8 = 0;

fn response(lab: &mut Lab) -> u8 {
    let answer = lab.one();
    assert_eq!(answer.header.opcode(), opcode::TASK_MANAGEMENT_RESPONSE);
    answer.header.0[2]
}

#[test]
fn an_aborted_task_never_answers() {
    let mut lab = Lab::session(&[]);
    let tag = lab.command(SLOW);
    let number = lab.cmd_sn - 1;
    lab.manage(1, 0, tag, number);
    assert_eq!(response(&mut lab), COMPLETE);
    assert_eq!(lab.dropped(), [u64::from(tag)]);
    let managed = lab.script.lock().managed.clone();
    assert!(matches!(managed[..], [(_, ManagementFunction::AbortTask { .. })]));
    lab.command(0);
    assert_eq!(lab.one().header.u32::<32>(), lab.cmd_sn + 7, "the window is whole again");
}

#[test]
fn an_abort_that_crosses_the_answer_is_complete() {
    let mut lab = Lab::session(&[]);
    let tag = lab.command(0);
    lab.one();
    lab.manage(1, 0, tag, lab.cmd_sn - 1);
    assert_eq!(response(&mut lab), COMPLETE);
}

#[test]
fn an_abort_reaches_a_command_that_still_gathers_its_data() {
    let mut lab = Lab::session(&[("ImmediateData", "No")]);
    let header = lab.header(FINAL | 0x21, WRITE, 2, 1024);
    lab.send(header, &[]);
    let r2t = lab.one().header;
    lab.manage(1, 0, lab.itt, lab.cmd_sn - 1);
    assert_eq!(response(&mut lab), COMPLETE);
    // Data that the initiator had sent before is ignored.
    lab.data_out(r2t.ttt(), 0, 0, &[0; 1024], true);
    assert!(lab.answers().is_empty());
    assert!(lab.executed().is_empty());
    lab.command(0);
    assert_eq!(lab.one().header.u32::<32>(), lab.cmd_sn + 7);
}

#[test]
fn an_abort_of_a_command_that_has_not_come_keeps_it_from_being_performed() {
    let mut lab = Lab::session(&[]);
    let lost = lab.header(FINAL, 0, 0, 0);
    let next = lab.header(FINAL, 0, 0, 0);
    lab.send(next, &[]);
    assert!(lab.executed().is_empty());
    lab.manage(1, 0, lost.itt(), lost.cmd_sn());
    let answers = lab.answers();
    assert_eq!(answers[0].header.0[2], COMPLETE);
    assert_eq!(answers[1].header.itt(), next.itt(), "the next command continues");
    lab.send(lost, &[]);
    assert_eq!(lab.executed(), [next.itt()]);
}

#[test]
fn a_command_aborted_before_it_arrived_is_ignored() {
    let mut lab = Lab::session(&[]);
    let lost = lab.header(FINAL, 0, 0, 0);
    let aborted = lab.header(FINAL, 0, 0, 0);
    let next = lab.header(FINAL, 0, 0, 0);
    lab.manage(1, 0, aborted.itt(), aborted.cmd_sn());
    assert_eq!(response(&mut lab), COMPLETE);
    for header in [aborted, next, lost] {
        lab.send(header, &[]);
    }
    assert_eq!(lab.executed(), [lost.itt(), next.itt()]);
    assert_eq!(lab.answers().len(), 2);
}

#[test]
fn an_abort_of_what_was_never_sent_finds_no_task() {
    let mut lab = Lab::session(&[]);
    lab.manage(1, 0, 999, lab.cmd_sn + 3);
    assert_eq!(response(&mut lab), 1);
}

#[test]
fn a_unit_wide_function_ends_this_units_commands_only() {
    for function in [2, 4, 5] {
        let mut lab = Lab::session(&[("ImmediateData", "No")]);
        let on = |lun: u8, header: Header| header.put(8, [0, lun]);
        let first = on(1, lab.header(FINAL, SLOW, 0, 0));
        let other = on(2, lab.header(FINAL, SLOW, 0, 0));
        let gathering = on(1, lab.header(FINAL | 0x21, WRITE, 1, 512));
        for header in [first, other, gathering] {
            lab.send(header, &[]);
        }
        assert_eq!(lab.one().header.opcode(), opcode::R2T);
        lab.manage(function, 1, 0xffff_ffff, 0);
        assert_eq!(response(&mut lab), COMPLETE);
        assert_eq!(lab.dropped(), [u64::from(first.itt())]);
        lab.finish(other.itt(), Some(good()));
        assert_eq!(lab.one().header.itt(), other.itt());
    }
}

#[test]
fn a_unit_wide_function_reaches_early_commands() {
    let mut lab = Lab::session(&[]);
    let lost = lab.header(FINAL, 0, 0, 0);
    let waiting = lab.header(FINAL, 0, 0, 0);
    let elsewhere = lab.header(FINAL, 0, 0, 0).put(8, [0, 1]);
    lab.send(waiting, &[]);
    lab.send(elsewhere, &[]);
    lab.manage(5, 0, 0xffff_ffff, 0);
    assert_eq!(response(&mut lab), COMPLETE);
    lab.send(lost, &[]);
    assert_eq!(lab.executed(), [lost.itt(), elsewhere.itt()]);
}

#[test]
fn a_unit_that_is_not_there_keeps_everything_as_it_is() {
    let mut lab = Lab::session(&[]);
    lab.command(SLOW);
    lab.manage(5, 10, 0xffff_ffff, 0);
    assert_eq!(response(&mut lab), 2);
    assert!(lab.dropped().is_empty());
}

#[test]
fn a_warm_reset_ends_every_command_and_a_cold_one_the_session_too() {
    for (function, ends) in [(6, false), (7, true)] {
        let mut lab = Lab::session(&[]);
        let tag = lab.command(SLOW);
        lab.manage(function, 0, 0xffff_ffff, 0);
        assert_eq!(response(&mut lab), COMPLETE);
        assert_eq!(lab.dropped(), [u64::from(tag)]);
        assert_eq!(lab.connection.is_cold_reset(), ends);
        assert_eq!(lab.connection.ended().is_some(), ends);
    }
}

#[test]
fn reassignment_and_unknown_functions_are_not_supported() {
    let mut lab = Lab::session(&[]);
    for (function, expected) in [(8, 4), (3, 5), (9, 5), (99, 5)] {
        lab.manage(function, 0, 1, 0);
        assert_eq!(response(&mut lab), expected);
    }
}

#[test]
fn a_task_aborted_by_another_nexus_ends_without_an_answer() {
    let mut lab = Lab::session(&[]);
    let tag = lab.command(SLOW);
    lab.finish(tag, None);
    assert!(lab.answers().is_empty());
    lab.command(0);
    assert_eq!(lab.one().header.u32::<32>(), lab.cmd_sn + 7);
}

const ABORT_TASK_SET: u8 = 2;
const REJECTED: u8 = 255;

/// Starts a slow command to the unit whose task management is in progress elsewhere.
fn slow_elsewhere(lab: &mut Lab) -> u32 {
    let header = lab.header(FINAL, SLOW, 0, 0).put(8, [0, ELSEWHERE]);
    lab.send(header, &[]);
    lab.itt
}

#[test]
fn what_follows_a_function_that_goes_on_elsewhere_is_performed_after_it() {
    let mut lab = Lab::session(&[]);
    let tag = slow_elsewhere(&mut lab);
    let function = lab.management(ABORT_TASK_SET, ELSEWHERE, 7, 0);
    let next = lab.header(FINAL, 0, 0, 0);
    lab.send_both(function, next);
    assert!(!lab.connection.wants_input(), "input waits");
    assert!(lab.answers().is_empty());
    assert_eq!(lab.executed(), [tag]);
    lab.managed(Some(ManagementResponse::Complete));
    let answers = lab.answers();
    assert_eq!(answers[0].header.opcode(), opcode::TASK_MANAGEMENT_RESPONSE);
    assert_eq!((answers.len(), answers[0].header.0[2]), (2, COMPLETE));
    assert_eq!(lab.dropped(), [u64::from(tag)], "the aborted task, and nothing that came after it");
    assert_eq!(lab.executed(), [tag, lab.itt]);
}

#[test]
fn a_task_that_ends_while_a_function_goes_on_is_answered_first() {
    let mut lab = Lab::session(&[]);
    let tag = slow_elsewhere(&mut lab);
    lab.manage(1, ELSEWHERE, tag, lab.cmd_sn - 1);
    lab.finish(tag, Some(good()));
    assert_eq!(lab.one().header.opcode(), opcode::SCSI_RESPONSE);
    lab.managed(Some(ManagementResponse::Complete));
    assert_eq!(response(&mut lab), COMPLETE);
}

#[test]
fn a_function_without_a_response_is_rejected_and_aborts_nothing() {
    let mut lab = Lab::session(&[]);
    let tag = slow_elsewhere(&mut lab);
    lab.manage(ABORT_TASK_SET, ELSEWHERE, tag, 0);
    lab.managed(None);
    assert_eq!(response(&mut lab), REJECTED);
    assert!(lab.dropped().is_empty());
    lab.finish(tag, Some(good()));
    assert_eq!(lab.one().header.itt(), tag);
}
