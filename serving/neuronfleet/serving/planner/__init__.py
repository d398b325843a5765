"""From a declared load to replicas and dollars: ceilings, staffing, decisions, verdicts."""
