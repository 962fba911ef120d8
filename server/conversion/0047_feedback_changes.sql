-- How often the user has changed their feedback about the run. Taking it back deletes the feedback, but not this number.
alter table runs add column feedback_changes integer not null default 0;
