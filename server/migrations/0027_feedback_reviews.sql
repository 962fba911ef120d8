-- An administrator marks feedback as reviewed. Feedback that the user changes afterwards is unreviewed again.
alter table feedback
  add column reviewed_at timestamptz(3),
  add column reviewed_by text,
  add constraint feedback_reviewed check ((reviewed_at is null) = (reviewed_by is null));
create index feedback_unreviewed on feedback (organization_id, updated_at, run_id) where reviewed_at is null;
