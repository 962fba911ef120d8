-- Only a sign-in at the identity provider confirms a browser.
alter table confirmed_browsers no force row level security;
delete from confirmed_browsers where how <> 'provider';
alter table confirmed_browsers drop constraint confirmed_browsers_how_check;
alter table confirmed_browsers add constraint confirmed_browsers_how check (how = 'provider');
