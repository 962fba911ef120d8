-- Servers of third parties know Inlay by a registration of their own making, unless somebody registered it beforehand.
alter table connectors
  drop constraint connectors_kind_check,
  add constraint connectors_kind_check check (kind in ('id_jag', 'oauth')),
  alter column client_id drop not null,
  alter column client_secret_sealed drop not null,
  alter column client_secret_last4 drop not null,
  add check (kind = 'oauth' or (client_id is not null and client_secret_sealed is not null));
