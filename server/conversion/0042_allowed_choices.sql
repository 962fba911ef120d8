-- Which tool the model calls carries data, so calls without arguments to another origin ask too.
alter table threads
  -- Calls without arguments that the user allowed for the rest of the thread: [{from, tools}], the latest first. `from` are
  -- the other origins whose text the conversation had, `tools` definition hashes.
  add column allowed_choices jsonb not null default '[]';
alter table tool_calls
  -- The same for one question: what the user can allow beyond the call.
  add column allowed_choice jsonb;
