-- Every message of a visitor counts the runs in the visitor's threads.
create index threads_of_visitor on threads (organization_id, visitor_fingerprint) where visitor_fingerprint is not null;
