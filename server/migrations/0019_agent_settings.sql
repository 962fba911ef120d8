-- An organization's settings of its agent. Organizations without a row have the defaults.
create table agent_settings (
  organization_id uuid primary key references organizations (id) on delete cascade,
  name text not null,
  greeting text not null,
  starter_prompts text[] not null,
  instructions text not null,
  -- [{provider, url, name, key_last4}]: the organization's own models in the order in which they are tried.
  models jsonb not null,
  -- The models' keys as a JSON array in the same order, in one value, because a model and its key change together.
  model_keys_sealed text,
  updated_at timestamptz(3) not null default now(),
  check ((models = '[]') = (model_keys_sealed is null))
);
