-- An end user is a subject of one issuer, and a connector's secret for the identity provider is for one issuer. Today's
-- rows get the issuer that is configured now, derived as visitors/identity-provider/issuers.ts derives it. For a Microsoft tenant
-- that was entered by name, discovery spells it with the tenant's ID; the first verified ID token replaces it.
alter table end_users
  -- As the provider's discovery document spells it. Empty if none is known; no ID token leads to such an end user.
  add column issuer text not null default '';
alter table connectors
  -- The issuer that the secret for the identity provider was entered for; null if none was configured then.
  add column idp_issuer text;

-- The owner of the schema changes all rows for once; after_each.sql closes the wall again.
alter table end_users no force row level security;
alter table connectors no force row level security;
alter table identity_providers no force row level security;

create function pg_temp.issuer_of(type text, domain text, custom text) returns text language sql as $$
  select case type
    when 'okta' then case
      when domain ~ '^[^/]+/oauth2/[A-Za-z0-9_-]+$'
        then 'https://' || lower(split_part(domain, '/', 1)) || substring(domain from '/.*$')
      else 'https://' || lower(domain) end
    when 'azure' then 'https://login.microsoftonline.com/' || lower(domain) || '/v2.0'
    when 'auth0' then 'https://' || lower(domain) || '/'
    when 'google' then 'https://accounts.google.com'
    when 'workos' then case
      when domain ~ '^client_[A-Za-z0-9_]+$' then 'https://api.workos.com/user_management/' || domain
      else 'https://' || lower(domain) end
    when 'firebase' then 'https://securetoken.google.com/' || domain
    when 'onelogin' then
      'https://' || lower(case when domain like '%.%' then domain else domain || '.onelogin.com' end) || '/oidc/2'
    when 'logto' then 'https://' || lower(domain) || '/oidc'
    when 'custom_oidc' then custom
  end
$$;

update end_users u set issuer = issuer_of.issuer
from (select organization_id, pg_temp.issuer_of(idp_type, idp_domain, idp_issuer) as issuer from identity_providers) issuer_of
where issuer_of.organization_id = u.organization_id and issuer_of.issuer is not null and u.preview_user_id is null;
update connectors c set idp_issuer = issuer_of.issuer
from (select organization_id, pg_temp.issuer_of(idp_type, idp_domain, idp_issuer) as issuer from identity_providers) issuer_of
where issuer_of.organization_id = c.organization_id and c.kind = 'id_jag';

alter table end_users
  drop constraint end_users_external_id,
  add constraint end_users_identity unique (organization_id, issuer, external_id);
