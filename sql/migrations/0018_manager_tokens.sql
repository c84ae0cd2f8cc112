-- Kinds of managers' tokens, each of which may do what the one before may: a manager looks at campaigns,
-- steers and feeds them; a submitter creates and changes them, so it says what agents execute; a pickler has
-- agents unpickle what it sends. Their order is that of their rights: permit() compares by it.
alter type taskq.token_kind add value 'submitter';
alter type taskq.token_kind add value 'pickler';
