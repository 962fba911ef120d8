-- A result that arrived after the call's outcome had been reported as unknown. The model gets it after this step of the run.
alter table tool_calls add column late_step integer;
