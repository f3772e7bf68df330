-- Who may write the reason of a trigger; frozen here.
GRANT INSERT (trigger_reason) ON datarecs.run TO datarecs_api;
