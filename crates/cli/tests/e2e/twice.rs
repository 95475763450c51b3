//! Runs tests once more beside a `limulus serve` that owns the home. R61 requires the same output with every owner, so
//! a test of a command that is its own owner also tests a command that uses the socket. Each omitted test has a reason.
//! This file contains only the lists.

use std::fs;
use std::path::Path;

macro_rules! beside_an_owner {
    ($($file:ident { $($test:ident),+ $(,)? })+) => {
        $(mod $file {
            $(#[test]
            fn $test() {
                crate::support::beside_an_owner(crate::$file::$test);
            })+
        })+

        /// The tests that run twice, by file.
        const TWICE: &[(&str, &[&str])] = &[$((stringify!($file), &[$(stringify!($test)),+])),+];
    };
}

beside_an_owner! {
    answers {
        r61_the_first_command_needs_no_key_and_no_configuration,
        r61_a_request_in_chinese_is_answered_in_chinese,
        r61_one_sentence_may_ask_for_several_tools,
        r22_r43_json_lines_show_the_run_from_its_acceptance_to_its_one_end,
        r22_every_change_of_state_is_a_line,
        r43_what_a_run_takes_is_a_stream_of_its_own,
        r44_a_pipe_gets_each_message_once,
        r10_the_same_key_is_the_same_message,
    }
    asking {
        r02_without_a_terminal_the_answer_is_no_and_the_model_receives_the_reason,
        r02_yes_allows_what_would_be_asked_for_that_run_alone,
        r02_yes_does_not_allow_what_is_denied,
        r02_a_terminal_is_asked_and_its_answer_holds,
        r60_what_was_typed_before_a_question_is_not_its_answer,
        r60_one_answer_is_for_one_question,
        r60_a_command_cannot_forge_a_question,
        r44_the_line_of_a_call_shows_a_whole_command_or_says_how_much_is_cut,
        r12_retracted_text_is_erased_from_a_terminal,
    }
    audit {
        r18_every_transition_is_in_the_log_with_time_cause_from_and_to,
        r17_the_state_at_any_point_is_the_same_bytes_whenever_it_is_asked_for,
    }
    background {
        r11_r13_a_command_in_the_background_outlives_a_kill_and_is_polled_written_to_and_ended,
        r11_r17_a_command_that_still_works_is_named,
        r20_r34_a_session_that_is_ended_takes_its_run_and_its_processes_with_it,
    }
    backup {
        r61_a_restored_home_is_the_home_that_was_copied,
        r11_a_command_that_ran_during_the_backup_is_not_run_again_in_the_restored_home,
    }
    bad_input {
        r24_a_message_of_fifty_megabytes_is_refused_with_what_to_do,
        r24_messages_that_are_none_are_refused,
        r46_a_file_that_is_not_text_is_reported_to_the_model,
        r24_r41_a_mistyped_workspace_is_refused_and_not_made,
        r24_a_home_that_cannot_be_written_is_named,
        r24_what_is_not_there_is_not_found,
    }
    budgets {
        r23_a_run_that_has_used_up_its_calls_waits_and_continues_when_the_limit_is_raised,
        r23_a_run_ends_at_its_limit_where_that_is_configured,
        r23_near_a_limit_the_model_is_asked_to_finish,
        r21_r23_a_run_that_stops_far_from_its_limit_shows_what_is_reserved_and_what_its_next_request_needs,
        r23_usage_is_shown_by_model_session_and_day,
        r23_a_session_that_has_spent_its_money_sends_nothing_until_it_has_more,
        r23_a_budget_that_is_none_is_refused_with_what_to_say,
        r23_the_home_has_a_limit_that_no_day_renews_and_a_reserve,
        r23_a_limit_of_the_day_that_is_set_later_holds_for_a_run_at_work,
    }
    chat {
        r62_changes_of_files_are_shown_and_taken_back_from_the_chat,
        r62_commands_are_answered_without_a_model_and_hold_for_the_next_run,
        r62_a_session_that_is_verbose_shows_what_its_calls_give,
        r62_a_new_conversation_begins_with_what_follows_the_command,
        r10_a_key_beside_a_command_is_refused,
    }
    compaction {
        r14_r25_the_model_can_write_down_important_facts_before_a_summary,
        r25_r52_a_turn_of_thirty_tools_never_reaches_the_providers_overflow,
        r23_a_summary_that_too_little_is_left_for_is_not_asked_for,
        r52_thirty_results_at_once_are_truncated_before_they_are_sent,
        r52_an_overflow_is_compacted_and_then_reported_readably,
        r14_a_summary_that_goes_wrong_leaves_the_old_history,
        r62_a_history_is_compacted_on_demand_and_that_is_undone,
        r62_each_summary_can_be_undone_in_turn,
        r41_a_request_holds_the_newest_turns_of_the_history,
    }
    failover {
        r51_the_answering_model_is_reported_if_only_the_ledger_is_the_reason,
        r50_r51_a_key_that_is_refused_gives_way_to_the_next_and_a_model_to_its_fallback,
        r51_when_all_have_failed_each_is_named,
        r50_all_sessions_share_a_cooldown_and_the_user_can_clear_it,
    }
    chains {
        r53_a_level_that_a_model_refused_is_not_asked_for_again,
        r50_r51_r53_a_chain_of_keys_levels_and_models_on_each_wire_format,
    }
    cut_answers {
        r40_an_answer_that_is_cut_is_continued_as_one_text_on_each_wire_format,
        r40_an_answer_that_stays_cut_is_reported,
        r24_r40_r46_an_answer_whose_rest_fails_is_completed_with_what_came,
        r23_r40_an_answer_whose_rest_the_budget_forbids_is_completed_with_what_came,
        r40_a_filtered_answer_is_reported_and_not_continued,
        r40_a_continuation_without_content_says_that_the_answer_was_whole,
        r14_a_summary_that_is_cut_is_not_used,
    }
    formats {
        r50_r51_a_chain_goes_through_every_wire_format,
        r41_r65_the_trace_counts_the_answers_that_another_model_signed,
        r45_r66_a_conversation_with_reasoning_and_a_tool_on_each_wire_format,
        r45_an_image_that_is_attached_and_one_that_is_read_are_sent_on_each_wire_format,
        r45_a_model_without_image_support_receives_their_names_and_the_user_a_note,
    }
    deliveries {
        r46_a_reply_goes_to_the_route_of_its_message,
        r46_a_refused_delivery_is_sent_again_or_given_up_by_its_user,
        r47_an_answer_goes_out_in_blocks,
    }
    doctor_around {
        r18_a_new_home_is_no_failure_and_each_part_is_looked_at,
        r18_r50_providers_are_asked_if_wanted_and_no_key_is_shown,
    }
    status {
        r18_the_status_says_what_today_cost_and_the_size_of_the_home,
        r18_r60_the_status_lists_the_questions_that_wait_for_a_person,
    }
    notify {
        r60_a_question_that_nobody_answers_calls_for_the_user,
    }
    layers {
        r24_a_project_limits_the_runs_in_it_and_no_others,
        r24_what_a_project_may_not_set_starts_no_run_in_it,
        r24_what_an_agent_writes_into_the_file_of_its_project_gives_it_nothing,
    }
    key_commands {
        r50_a_command_prints_the_key_which_is_in_no_output_and_no_file,
        r50_a_command_that_fails_fails_the_run_with_its_status_and_without_its_output,
    }
    large {
        r43_an_answer_of_six_megabytes_in_small_pieces_reaches_everybody,
        r43_an_answer_of_six_megabytes_in_one_piece_reaches_everybody,
        r43_an_answer_that_is_longer_than_a_frame_when_escaped_reaches_everybody,
        r43_an_answer_of_quotes_and_newlines_reaches_everybody,
        r45_huge_results_are_bounded_for_a_command,
    }
    wrapping {
        r09_the_limit_that_ended_a_command_is_shown_whole_with_its_key,
        r09_all_lines_beside_an_answer_are_wrapped_between_words,
        r09_the_colours_of_a_command_are_left_out_and_other_controls_are_escaped,
    }
    job_control {
        r15_nothing_is_drawn_over_the_prompt_of_a_shell_while_in_the_background,
        r15_no_part_of_a_line_is_written_behind_the_prompt_of_a_shell,
        r12_an_answer_above_the_prompt_of_a_shell_is_not_erased,
        r09_a_dumb_terminal_gets_lines_only_and_asks,
        r09_an_answer_goes_on_in_the_new_width_of_the_terminal,
        r15_a_terminal_that_becomes_narrower_keeps_no_row_of_a_running_command,
    }
    display {
        r09_the_last_lines_of_a_running_command_are_below_it_and_go_with_its_end,
        r09_a_flood_of_output_is_drawn_at_the_rate_of_frames,
        r09_an_answer_is_rendered_on_a_terminal_and_is_raw_elsewhere,
        r09_what_is_open_of_an_answer_is_shown_while_it_streams,
        r09_a_run_that_waits_for_long_says_what_for,
        r09_a_long_command_and_a_stalled_answer_say_what_is_waited_for,
        r09_a_message_from_another_terminal_is_shown_where_it_takes_effect,
        r09_an_edit_is_shown_as_a_diff_below_its_line,
        r09_a_long_diff_is_bounded_and_is_shown_again_by_a_watcher,
        r09_the_last_line_on_a_terminal_says_what_a_run_took_and_changed,
        r09_the_output_of_every_call_is_shown_if_a_person_wants_it,
        r09_all_of_a_long_output_is_shown_if_a_person_wants_it,
        r09_colours_are_written_where_they_are_wanted,
    }
    executed {
        r02_yes_does_not_approve_a_file_that_other_programs_run,
        r02_a_person_is_asked_about_such_a_file_in_spite_of_yes,
        r41_the_users_own_files_of_git_hold_up_no_walk,
    }
    limits {
        r49_a_run_past_its_limit_ends_with_its_text_kept,
        r15_the_limit_of_a_run_ends_its_command,
        r15_r49_a_call_past_its_limit_is_ended_whatever_it_does,
        r15_r49_a_command_is_ended_at_the_limit_that_it_asked_for,
        r49_a_run_without_progress_ends_as_stalled,
        r13_r15_a_killed_supervisor_ends_its_command_and_the_result_has_the_output_so_far,
        r52_a_run_in_a_loop_is_warned_and_then_stopped,
        r15_a_command_leaves_nothing_behind,
        r45_a_command_may_print_a_gigabyte,
    }
    typing {
        r15_what_is_typed_during_a_run_steers_it,
        r60_what_was_half_typed_comes_back_after_a_question,
        r60_no_part_of_a_paste_is_the_answer_to_a_question,
    }
    terminals {
        r15_a_terminal_that_becomes_narrower_shows_the_last_rows_once,
        r15_a_footer_that_is_taller_than_the_screen_leaves_nothing_behind,
        r24_a_closed_stdout_ends_a_watcher_and_no_run,
    }
    titles {
        r09_a_run_does_not_wait_for_its_title,
        r09_a_run_is_not_explained_by_the_title_that_is_out,
        r09_the_offline_model_gives_no_titles,
        r50_a_title_holds_no_key,
    }
    pauses {
        r16_a_paused_run_is_no_unfinished_work_that_resume_hides,
        r22_who_waits_for_a_paused_run_is_told_how_it_goes_on,
        r22_a_message_behind_a_paused_run_says_what_it_waits_for,
    }
    structured {
        r24_a_check_that_takes_longer_than_an_answer_may_be_silent_fails_no_run,
        r10_r61_a_key_whose_answer_did_not_fit_says_so_without_the_schema_too,
        r61_a_provider_that_takes_the_schema_of_an_answer_receives_it,
        r61_an_answer_that_was_continued_is_asked_for_once_more,
        r61_a_provider_that_refuses_the_schema_is_an_error_that_names_the_key,
        r61_a_number_of_an_answer_is_not_rounded,
        r24_a_schema_without_an_end_is_refused_and_a_check_is_bounded,
        r61_a_schema_in_a_pipe_is_waited_for_and_said_and_one_with_a_key_twice_is_refused,
    }
    tasks {
        r16_a_list_of_classes_may_have_blanks,
        r61_a_plan_changes_nothing,
        r61_a_structured_answer_is_one_value,
        r61_an_answer_that_does_not_fit_is_asked_for_once_more,
        r61_the_same_key_gives_the_same_exit_code,
    }
    copies {
        r41_what_a_run_changes_in_a_copy_is_taken_over,
        r41_what_cannot_be_taken_over_stays_in_its_copy,
        r41_a_conflict_with_the_workspace_is_named_and_nothing_is_lost,
        r41_a_copy_is_discarded,
        r41_a_rule_on_a_path_holds_in_a_copy,
        r41_a_plan_has_no_copy_and_a_project_may_want_one,
        r41_a_run_works_in_a_worktree,
    }
    plans {
        r13_r43_a_plan_is_shown_each_time_that_it_changes,
        r13_a_terminal_shows_the_plan_below_its_call,
        r13_r25_a_plan_survives_a_compaction,
        r13_a_plan_ends_with_its_conversation,
        r13_r22_an_open_plan_is_in_the_status_and_in_the_explanation,
    }
    policy {
        r24_a_rule_decides_on_each_command_of_a_line,
        r24_a_rule_on_a_path_holds_for_searches_and_links,
        r24_a_project_can_only_make_rules_stricter,
        r24_a_project_allows_while_its_file_is_trusted,
        r24_a_terminal_asks_once_whether_a_project_is_trusted,
        r24_the_rule_that_decides_names_itself,
        r24_a_rule_counts_in_its_sessions_alone,
        r24_a_rule_counts_for_who_began_the_run,
        r24_a_wrong_rule_is_refused_with_its_line,
    }
    resumed {
        r21_resume_offers_the_last_conversation_if_nothing_is_unfinished,
    }
    instructions {
        r41_the_model_receives_the_instructions_of_the_user_and_the_project,
        r41_the_prompt_is_shown_part_by_part_as_the_model_receives_it,
        r41_a_configured_workspace_that_is_not_there_is_not_made,
    }
    skills {
        r41_a_run_has_the_skills_that_are_there_when_it_begins,
        r41_a_message_that_begins_with_the_name_of_a_skill_has_the_model_use_it,
        r41_skills_are_listed_shown_checked_and_added,
        r41_a_message_may_bring_its_own_prompt,
        r24_r41_a_skill_of_the_user_brings_variables_and_rules,
        r41_the_examples_of_the_pages_are_what_is_shown,
    }
    caching {
        r66_a_cache_that_should_have_been_used_is_named_with_the_first_byte_that_differed,
        r41_r66_each_request_begins_with_the_one_before_it,
        r41_r65_the_trace_names_what_was_changed_in_the_history,
        c5_r66_a_provider_that_counts_what_cannot_be_breaks_no_sum,
    }
    memory {
        r41_what_a_session_wrote_down_is_found_by_the_next,
    }
    one_line {
        r61_a_message_needs_no_command,
        r61_a_pipe_alone_is_the_message,
        r61_a_pipe_beside_a_message_is_its_context,
        r22_the_last_line_of_json_is_the_result,
        r61_the_text_of_an_answer_is_written_into_a_file,
        r24_a_failure_under_json_is_one_line_of_json,
        the_examples_of_the_page_about_scripts_are_true,
    }
    projects {
        r21_each_project_has_a_conversation_of_its_own,
        r21_a_folder_without_a_session_says_whose_name_it_is,
        r21_a_folder_may_have_further_conversations,
        a3_r61_the_same_key_begins_one_new_session_of_the_folder,
        r21_a_fixed_workspace_has_one_conversation_for_all_folders,
        r21_a_terminal_says_which_conversation_it_is,
        r21_a_pipe_is_told_once_that_the_other_conversation_is_there,
        the_examples_of_the_page_about_sessions_are_true,
    }
    providers {
        r24_r51_a_request_that_fails_says_so_and_is_in_the_trace,
        r24_a_short_interruption_is_retried,
        r24_a_provider_that_cannot_be_reached_is_named,
        r49_a_request_to_a_silent_provider_times_out,
        r13_r46_a_call_that_makes_no_sense_is_answered_and_not_run,
        r50_a_key_is_sent_and_shown_to_nobody,
    }
    receipts {
        a3_r10_r61_a_receipt_and_the_key_of_its_message_outlive_kill_9,
        a3_r61_other_content_under_the_same_key_is_a_conflict_and_changes_nothing,
        r31_a_message_for_another_state_is_refused_and_leaves_nothing,
    }
    secrets {
        r50_a_key_in_the_answer_of_a_model_is_in_no_event_no_file_and_no_output,
        r50_a_key_in_the_message_of_a_user_is_masked_before_it_is_recorded_and_the_receipt_says_so,
    }
    session_names {
        r61_a_session_is_named_in_its_place_or_by_a_flag,
        r61_a_command_for_runs_that_names_none_means_that_of_the_folder,
    }
    sessions {
        r21_the_list_has_a_line_for_each_session_by_last_activity,
        r21_a_session_can_be_renamed,
        r21_a_title_may_stand_for_the_name_of_its_session,
        r21_an_archived_session_is_hidden_until_its_next_message,
        r09_a_session_is_exported_as_markdown_or_json,
        r21_what_was_said_is_found_until_it_is_erased,
        r24_an_index_that_cannot_be_written_disables_only_the_search,
    }
    show {
        r06_the_path_of_a_run_is_in_its_drawing,
    }
    signals {
        r15_an_interrupt_ends_the_run_with_every_process_of_its_command,
        r15_an_interrupt_keeps_the_text_that_has_come,
        r15_ctrl_c_on_a_terminal_ends_the_run_cleanly,
        r15_a_signal_ends_a_command_whose_stdout_nobody_reads,
    }
    tools {
        r61_files_are_edited_and_found_by_plain_requests,
        r13_a_patch_changes_several_files_or_none,
        r45_what_was_left_out_of_an_output_can_be_read,
        a_page_is_fetched_only_with_approval_and_only_from_allowed_addresses,
    }
    undo {
        r17_the_diff_of_a_run_that_was_undone_says_so,
        r17_what_a_run_changed_in_files_is_shown_taken_back_and_made_once_more,
        r17_an_undo_overwrites_nothing_that_was_changed_since_unless_it_is_forced,
        r17_undo_goes_back_run_by_run,
        r17_contents_before_are_kept_once_and_for_their_user_alone,
        r17_an_undo_never_leaves_the_workspace_through_a_link,
        r17_what_an_undo_cannot_take_back_is_listed,
        r17_an_undo_goes_further_back_than_what_it_cannot_restore,
        r17_a_file_with_several_names_has_them_again,
        r17_an_undo_is_refused_while_another_run_works_in_the_folder,
        r17_a_terminal_is_asked_before_files_are_taken_back,
        r17_what_a_command_changed_is_shown_taken_back_and_made_once_more,
        r17_a_path_that_the_run_did_not_change_is_refused_by_name,
        r17_what_may_be_a_change_of_somebody_else_stays_unless_it_is_forced,
        r17_a_terminal_is_asked_about_each_file_that_was_changed_since,
        the_examples_of_the_page_about_undo_are_true,
    }
    web_search {
        r13_r50_what_is_found_reaches_the_model_and_the_key_nothing_else,
        r24_a_search_is_decided_as_a_page_of_its_host,
        r13_without_a_configuration_there_is_no_web_search,
    }
}

/// The tests that run once, by file and name, each with its reason; `*` is a whole file.
const ONCE: &[(&str, &str, &str)] = &[
    ("caching", "r66_a_day_that_changes_leaves_what_was_sent", "the time zone is that of whoever owns the home"),
    (
        "skills",
        "r41_r67_a_skill_is_listed_then_read_and_its_script_runs_in_the_sandbox",
        "a sandbox is that of whoever owns the home, and is tried with one",
    ),
    ("job_control", "r15_what_a_shell_wrote_during_a_stop_stays", "stops the process that owns the home and draws"),
    (
        "tasks",
        "r16_a_message_stops_its_run_before_the_first_call_of_a_class",
        "follows what it resumes, which the command that owns the home does",
    ),
    (
        "tasks",
        "r16_a_run_stops_before_its_question",
        "follows what it resumes, which the command that owns the home does",
    ),
    (
        "tasks",
        "r16_a_class_that_does_not_exist_is_refused_with_the_list",
        "checks words before any owner is looked for",
    ),
    (
        "pauses",
        "r16_a_stop_at_a_breakpoint_has_the_same_exit_code_whoever_follows",
        "kills the command that owns the home",
    ),
    (
        "pauses",
        "r16_a_breakpoint_of_a_command_has_the_exit_code_of_one_of_a_message",
        "kills the command that owns the home",
    ),
    (
        "pauses",
        "r16_a_conversation_that_is_continued_says_that_its_run_has_stopped",
        "kills the command that owns the home",
    ),
    (
        "pauses",
        "r61_an_answer_that_does_not_fit_has_the_same_exit_code_whoever_follows",
        "kills the command that owns the home",
    ),
    ("tasks", "r61_a_schema_that_is_none_is_refused_before_anything_is_sent", "checks that no home was made"),
    ("one_line", "r24_a_word_that_is_no_command_sends_nothing", "checks that no home was made"),
    ("one_line", "r24_a_context_has_a_limit", "checks that no home was made"),
    (
        "sessions",
        "r21_nothing_of_a_deleted_session_is_left_readable",
        "looks into the files of a home whose owner has ended",
    ),
    (
        "sessions",
        "r21_a_deletion_leaves_what_others_need_and_is_refused_while_a_run_is_unfinished",
        "changes the pace of the model, which the owner read before",
    ),
    (
        "undo",
        "r21_contents_of_files_are_erased_with_old_content",
        "erases content, which needs a home without an owner",
    ),
    ("delete", "*", "kills the command that owns the home, or looks into the files of a home whose owner has ended"),
    ("undo", "r11_r17_a_kill_in_an_undo_is_completed_by_the_next_owner", "kills the command that owns the home"),
    ("undo", "r13_r17_a_kill_in_a_call_loses_no_content_from_before_it", "kills the command that owns the home"),
    ("undo", "r13_r17_a_kill_around_a_command_loses_no_change_of_it", "kills the command that owns the home"),
    (
        "undo",
        "r17_a_workspace_that_is_not_recorded_says_why",
        "changes the configuration and the home folder of the owner",
    ),
    ("chinese", "*", "compares two homes"),
    ("mistakes", "*", "makes homes of its own, some of which cannot be owned"),
    ("leaving", "*", "is about the command that owns the home, which leaves it"),
    ("held", "*", "each starts its own service, which has a fault"),
    ("large", "r45_huge_results_are_bounded_in_a_service", "starts its own service"),
    ("anchored", "*", "removes entries of a home that nobody owns"),
    (
        "secrets",
        "r50_a_key_does_not_go_to_an_address_that_changed_after_its_run_began",
        "changes the file before there is an owner",
    ),
    ("secrets", "r50_a_resumed_run_sends_its_key_to_no_other_address_either", "kills the owner"),
    ("secrets", "r50_a_provider_without_a_key_may_change_its_address_during_a_run", "kills the owner"),
    (
        "secrets",
        "r50_a_proxy_of_the_environment_receives_nothing_that_is_for_this_machine",
        "gives its commands other variables than the owner has",
    ),
    (
        "secrets",
        "r50_a_key_in_the_wrong_place_of_the_configuration_is_shown_nowhere",
        "an owner cannot start with such a file",
    ),
    (
        "asking",
        "r11_after_a_kill_the_next_terminal_is_asked_again",
        "kills the owner as if it were the terminal's own process",
    ),
    ("asking", "r60_a_terminal_is_not_asked_for_another_session", "starts the owner itself"),
    ("asking", "r60_a_terminal_of_another_session_is_no_approver", "starts the owner itself"),
    ("copies", "r13_r41_taking_over_is_completed_after_a_kill", "kills its owners"),
    ("plans", "r11_r13_a_plan_outlives_kill_9", "starts its owners itself"),
    ("web_search", "r50_r60_an_approved_search_goes_where_it_was_to_go", "starts its owner itself"),
    ("questions", "*", "starts its owners itself"),
    ("sandbox", "*", "starts its owners itself"),
    ("approvals", "*", "starts its owners itself"),
    ("attempts", "*", "starts its owners itself, or needs them to have its variables"),
    ("terminal_text", "*", "a server gives each answer once, and the owner's configuration would be another"),
    (
        "cleanup",
        "*",
        "erases in a home that nobody owns, or gives its commands another configuration than the owner has",
    ),
    ("budgets", "r23_a_wait_for_more_outlives_kill_9", "kills the command as the owner"),
    ("budgets", "r23_fifty_runs_at_once_do_not_pass_the_dollar_that_they_share_whatever_is_killed", "kills the owner"),
    (
        "background",
        "r11_r20_a_killed_end_of_a_session_is_resumed",
        "kills the command that ends the session, which is not the owner here",
    ),
    ("background", "r11_r17_what_a_command_changed_while_nobody_owned_the_home_is_recorded", "nobody may own the home"),
    ("background", "r11_r17_a_service_records_what_an_earlier_owner_left_behind", "the owner comes later"),
    (
        "background",
        "r13_a_process_that_ends_without_an_owner_is_shown_as_ended",
        "somebody looks all the time, and a repair owns the home alone",
    ),
    (
        "bad_input",
        "r24_an_unknown_key_of_the_configuration_is_reported_with_the_nearest",
        "no owner starts with that configuration",
    ),
    (
        "undo_drawn",
        "r17_undo_gives_back_the_tree_after_any_drawn_run_or_names_what_it_cannot",
        "kills the command that owns the home",
    ),
    (
        "resumed",
        "r11_the_next_message_says_what_was_interrupted_and_resumes_it",
        "kills the command that owns the home",
    ),
    ("terminals", "r15_ctrl_z_is_heard_whatever_the_command_waits_for", "is about one process and its terminal"),
    ("terminals", "r15_a_hangup_leaves_the_terminal_as_it_was", "is about one process and its terminal"),
    ("terminals", "r15_a_signal_ends_a_command_whose_terminal_takes_nothing", "is about one process and its terminal"),
    (
        "titles",
        "r09_a_model_names_a_conversation_beside_its_first_answer",
        "looks into the files of a home whose owner has ended",
    ),
    ("titles", "r11_a_kill_while_a_title_is_asked_for_loses_nothing", "kills the command that owns the home"),
    (
        "terminals",
        "r15_keys_work_again_after_a_stop_from_outside_and_in_the_foreground",
        "is about one process and its terminal",
    ),
    (
        "typing",
        "r15_nothing_that_was_typed_is_left_for_the_shell_and_the_terminal_is_as_it_was",
        "is about one process and its terminal",
    ),
    (
        "typing",
        "r15_a_command_that_is_suspended_leaves_the_terminal_and_reads_keys_when_it_is_continued",
        "is about one process and its terminal",
    ),
    (
        "typing",
        "r15_a_command_in_the_background_reads_no_keys_and_is_not_stopped",
        "is about one process and its terminal",
    ),
    ("bad_input", "r24_r41_a_workspace_that_has_gone_fails_the_run_alone", "has a service of its own"),
    (
        "instructions",
        "r41_a_service_refuses_a_relative_workspace_and_makes_one_for_an_agent_without",
        "starts services of its own",
    ),
    ("bad_input", "r24_an_unknown_model_is_reported_before_anything_is_recorded", "the owner has made the home"),
    ("aborts", "*", "is about a second terminal: a service of its own, or an owner that another command aborts"),
    ("chat", "r62_a_command_that_makes_no_sense_says_what_does", "begins where there is no home"),
    ("chat", "r62_exit_ends_the_client_alone", "is beside a service of its own"),
    ("chat", "r62_a_run_is_paused_resumed_and_stopped_from_the_chat", "is beside a service of its own"),
    (
        "chat",
        "r36_a_waiting_message_shows_its_state_and_a_steer_has_the_configured_prefix",
        "is beside a service of its own",
    ),
    (
        "compaction",
        "r11_r14_a_kill_in_a_compaction_leaves_the_old_history_and_the_next_owner_continues",
        "kills the command that owns the home",
    ),
    ("config", "*", "no command of it speaks with an owner"),
    ("config_set", "*", "no command of it speaks with an owner"),
    ("layers", "r24_the_layer_and_the_place_of_every_value_are_shown", "no command of it speaks with an owner"),
    ("layers", "r24_a_change_is_written_into_the_file_that_the_key_came_from", "no command of it speaks with an owner"),
    ("damage", "*", "the disk of the home is full, or its journal damaged, before anybody owns it"),
    (
        "doctor_around",
        "r18_what_is_wrong_around_a_home_is_a_warning_and_only_damaged_data_a_failure",
        "its configuration is wrong, so no service starts",
    ),
    (
        "notify",
        "r60_the_end_of_a_long_run_calls_for_the_user_and_a_short_one_or_a_pipe_does_not",
        "the pace of the model is that of the command itself",
    ),
    ("doctor", "*", "a home is repaired by a command that is its only owner"),
    ("own", "*", "the home is in the workspace, or its configuration names a key in the workspace"),
    ("escapes", "*", "a command attacks the process that owns the home, or a service of its own"),
    ("failover", "r50_a_wait_for_a_limit_outlives_a_kill_and_can_be_aborted", "kills the command that owns the home"),
    (
        "failover",
        "r50_r51_a_run_that_waits_for_a_quota_continues_when_its_profile_is_cleared",
        "kills the command that owns the home, and starts each kind of owner",
    ),
    (
        "failover",
        "r50_a_command_whose_run_has_failed_leaves_nothing_unfinished",
        "is about a command that owns the home while it runs",
    ),
    ("failover", "r53_a_run_with_a_long_requested_wait_continues_when_a_user_clears_its_keys", "starts its owner"),
    (
        "failover",
        "r50_r51_a_run_observes_cooldowns_that_others_set_during_its_life",
        "two commands and their owner at once",
    ),
    (
        "failover",
        "r50_r10_with_a_damaged_ledger_runs_continue_with_a_warning_and_a_repair_keeps_intact_entries",
        "changes the journal while nobody owns the home",
    ),
    ("failover", "r50_no_kill_shortens_a_cooldown", "kills the command that owns the home"),
    (
        "failover",
        "r42_a_model_with_a_too_small_window_is_refused_before_a_request_is_sent",
        "begins where there is no home",
    ),
    ("formats", "r45_a_file_that_cannot_be_attached_sends_nothing", "the owner has made the home"),
    ("access", "*", "is about services, which it starts itself"),
    (
        "deliveries",
        "r46_a_run_that_is_refused_before_its_start_is_answered",
        "changes the configuration before an owner carries the message out",
    ),
    ("deliveries", "r46_an_id_names_one_delivery", "the first process that owns the home tries it again"),
    ("deliveries", "r46_a_session_with_a_waiting_delivery_can_be_ended", "an owner tries it again meanwhile"),
    (
        "deliveries",
        "r46_a_failed_delivery_is_tried_again_in_order",
        "starts its owners itself, or kills the command that owns the home",
    ),
    (
        "deliveries",
        "r46_a_kill_while_a_delivery_is_sent_doubles_nothing",
        "starts its owners itself, or kills the command that owns the home",
    ),
    (
        "deliveries",
        "r46_a_webhook_that_never_answers_is_an_unknown_outcome",
        "starts its owners itself, or kills the command that owns the home",
    ),
    ("deliveries", "r46_a_webhook_is_answered_at_its_route", "is about a service, which it starts itself"),
    (
        "deliveries",
        "r46_the_model_sends_messages_to_routes_and_to_its_user",
        "asks for approval, which waits under a service",
    ),
    (
        "deliveries",
        "r46_a_message_asks_for_calls_and_reasoning_in_its_reply",
        "the reply is made by whoever owns the home, and is the same",
    ),
    ("deliveries", "r46_a_wrong_route_is_refused_at_the_start", "no command runs with a configuration that is wrong"),
    ("tls", "*", "is about services, which it starts itself"),
    ("by_client", "*", "is about services, which it starts itself"),
    ("passed_on", "*", "is about services, which it starts itself"),
    ("openapi", "*", "is about services, which it starts itself"),
    (
        "backup",
        "r11_a_call_without_a_folder_in_the_backup_is_not_run_again",
        "it moves the folder of calls away, which an owner would make again",
    ),
    (
        "backup",
        "r11_a_backup_beside_a_busy_owner_is_sound_and_has_all_that_was_acknowledged_before",
        "starts its own service",
    ),
    (
        "backup",
        "r61_a_file_that_is_no_whole_backup_is_refused_and_leaves_nothing",
        "the home that is restored has no owner",
    ),
    ("backup", "r61_nothing_that_is_there_is_replaced", "begins with a home that is not there"),
    (
        "backup",
        "r61_a_signal_ends_a_backup_and_leaves_nothing_of_it",
        "is about the process of the backup, which speaks with no owner",
    ),
    ("backup", "r11_a_backup_from_which_files_are_erased_meanwhile_is_made_anew", "the backup speaks with no owner"),
    ("backup", "r11_a_restore_that_is_cut_off_is_completed_by_the_next_one", "the home that is restored has no owner"),
    ("http", "*", "is about services, which it starts itself"),
    ("handover", "*", "is about commands that own the home, and services that take it from them"),
    ("hold", "*", "is about a second terminal: beside a service of its own, or where nobody owns the home any more"),
    ("idle", "*", "is about a service of its own"),
    ("independent", "*", "another program reads the home"),
    ("kills", "*", "kills the command that owns the home; `served` kills owners beside others"),
    ("lanes", "*", "is beside a service of its own, with one place"),
    ("logins", "*", "starts its own service, or looks at what a process by itself does"),
    ("models", "*", "no command of it speaks with an owner"),
    ("old_homes", "*", "is about what is in the files of a home"),
    ("observability", "*", "is about services, which it starts itself"),
    ("webhooks", "*", "is about services, which it starts itself"),
    ("openclaw", "*", "is about services, which it starts itself"),
    ("openclaw_itself", "*", "is about services, which it starts itself"),
    ("owner", "*", "is about commands that own the home"),
    ("protocol", "*", "starts its own service"),
    ("python_client", "*", "starts its own service"),
    ("reading", "*", "compares both ways itself"),
    ("reading_owned", "*", "the owner is the test itself"),
    ("agents", "*", "starts its own service"),
    (
        "compaction",
        "r11_r14_r62_a_compaction_on_demand_is_finished_by_the_command_whose_owner_was_killed",
        "kills the command that owns the home",
    ),
    ("receipts", "r30_a_receipt_says_what_decided_the_mode_of_its_message", "changes the configuration of its owner"),
    ("receipts", "a3_r61_a_message_that_was_never_acknowledged_has_no_receipt", "begins where there is no home"),
    ("reload", "*", "the process that lives on is the command itself, which was killed before"),
    ("queue", "*", "is beside a service of its own"),
    ("serve", "*", "starts its own service"),
    ("served", "*", "compares both ways itself"),
    ("clients", "*", "starts its own service"),
    ("slow", "*", "starts its own service"),
    (
        "key_commands",
        "r50_what_a_command_starts_ends_with_whoever_waits_for_its_key",
        "it starts and ends the owner itself",
    ),
    (
        "key_commands",
        "r50_a_command_that_ignores_signals_ends_with_whoever_waits_for_its_key",
        "it ends the owner, which is the command itself",
    ),
    (
        "pauses",
        "r60_a_new_conversation_ends_what_a_killed_owner_left",
        "the owner that is killed is the command itself",
    ),
    ("pauses", "r61_a_command_takes_no_option_of_a_run", "it is refused before an owner is asked"),
    ("pauses", "r22_a_session_with_a_name_of_hexadecimal_digits_is_found_by_it", "only the journal is read"),
    ("first_setup", "*", "no command of it speaks with an owner, but for a run on a terminal"),
    ("setup", "*", "no command of it speaks with an owner"),
    ("readme", "*", "the pages start, kill and replace owners themselves; each command has its own tests"),
    ("show", "r03_r06_the_drawing_of_the_page_about_states_is_the_one_that_is_printed", "is about no home"),
    ("show", "r10_r12_r13_the_demo_ends_green", "is about no home"),
    (
        "signals",
        "r15_an_interrupt_of_resume_ends_its_run_and_leaves_what_waits_behind_it",
        "resumes what an owner left that is gone",
    ),
    (
        "signals",
        "r13_r15_a_shutdown_leaves_a_running_command_to_its_supervisor",
        "SIGTERM ends only the client: the run continues in its owner",
    ),
    (
        "signals",
        "r15_a_second_interrupt_quits_at_once",
        "the owner continues the abort, which may end before anybody resumes",
    ),
    (
        "signals",
        "r15_a_shutdown_seals_streams_and_the_next_owner_continues",
        "SIGTERM ends only the client: the run continues in its owner",
    ),
    (
        "signals",
        "r15_leaving_in_order_does_not_count_towards_poison",
        "SIGTERM ends only the client: the run continues in its owner",
    ),
];

/// The names of the tests in a file.
fn tests_of(text: &str) -> Vec<&str> {
    let tests = text.split("#[test]").skip(1);
    tests.filter_map(|test| test.split_once("fn ")?.1.split_once('(').map(|(name, _)| name)).collect()
}

/// R61: no test is left out without a reason.
#[test]
fn r61_every_test_runs_beside_an_owner_too_or_says_why_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let mut reasons = ONCE.to_vec();
    for entry in fs::read_dir(folder).expect("the tests").flatten() {
        let path = entry.path();
        let file = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
        if !path.is_file() || file == "twice" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a file of the tests");
        let twice = TWICE.iter().find(|(of, _)| *of == file).map_or(&[][..], |(_, tests)| tests);
        for test in tests_of(&text) {
            let is_once = |(of, name, _): &&(&str, &str, &str)| *of == file && (*name == "*" || *name == test);
            let once = ONCE.iter().filter(is_once).count();
            assert_eq!(once + usize::from(twice.contains(&test)), 1, "{file}::{test} is in neither list, or in both");
            reasons.retain(|reason| !is_once(&reason));
        }
    }
    assert!(reasons.is_empty(), "there is no such test: {reasons:?}");
}
