-- What a model writes while it writes it, in the order of n, because rewriting a growing text costs its square. At the end
-- of the step, the whole text goes to steps.text, and these rows go.
create table step_texts (
  organization_id uuid not null references organizations (id) on delete cascade,
  run_id uuid not null,
  step integer not null,
  -- How many characters precede this part.
  n integer not null,
  text text not null,
  primary key (organization_id, run_id, step, n),
  foreign key (organization_id, run_id, step) references steps (organization_id, run_id, step) on delete cascade
);

-- The owner of the schema reads all rows for once.
alter table steps no force row level security;
insert into step_texts (organization_id, run_id, step, n, text)
select organization_id, run_id, step, 0, text from steps where finish_reason is null and text <> '';
