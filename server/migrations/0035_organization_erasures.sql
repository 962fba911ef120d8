-- Organizations that an administrator deleted: what is still to be erased, and the receipts. The rows belong to the
-- installation and outlive the organization, so they have nothing of it but a hash of its id.
create table organization_erasures (
  id uuid primary key,
  -- SHA-256 of the organization's id.
  organization_hash text not null,
  -- The organization's id until nothing of it is left.
  pending_id uuid unique,
  -- The user who can read the receipt.
  requested_by uuid references users (id) on delete set null,
  -- How many rows of each table were erased so far. Written in the transaction that erases them.
  counts jsonb not null default '{}',
  requested_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  check ((pending_id is null) = (finished_at is not null))
);
create index organization_erasures_of_user on organization_erasures (requested_by);
