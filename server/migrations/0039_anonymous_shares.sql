-- Shares of the anonymous visitors' budget: of one network address, one visitor and one publishable key. They are for days
-- only. The subject of an address or a visitor is a keyed hash.
alter table budgets
  drop constraint budgets_scope_check,
  add constraint budgets_scope_check
    check (scope in ('organization', 'end_user_default', 'anonymous', 'address', 'visitor', 'key'));
alter table budget_periods
  drop constraint budget_periods_scope_check,
  add constraint budget_periods_scope_check
    check (scope in ('organization', 'end_user', 'anonymous', 'address', 'visitor', 'key'));
