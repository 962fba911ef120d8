-- The cleanup after an end of access is called what it is. Policies bind the owner too, until this.
alter table jobs no force row level security;
update jobs set kind = 'access_cleanup' where kind = 'departure';
