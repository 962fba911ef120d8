-- Tools of a connector that an administrator vouches for: they only read, whatever their server says, and run without
-- asking the user.
alter table connectors add column read_only_tools text[] not null default '{}';
