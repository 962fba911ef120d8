-- What the panel shows of a call: the tool's title, and the form for its arguments.
alter table tool_calls
  add column title text,
  -- JSON Schema, if the user was asked and it isn't too large. Not jsonb, which would forget the order of its properties.
  add column input_schema json;
