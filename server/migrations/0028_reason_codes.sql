-- Why the user was asked, or that the user stopped the call: a code with the values in its text, which clients translate.
alter table tool_calls add column reason_data jsonb;
