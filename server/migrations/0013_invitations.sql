-- People accept invitations themselves, so they have to see which organization invites them.
create policy inviting_organizations on organizations for select using (
  current_invitee() is not null
  and exists (select from invitations i where i.organization_id = organizations.id and i.email = current_invitee())
);
