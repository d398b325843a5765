"""The gateway's agent: it keeps HAProxy as the cluster says, and one queue a fleet between pods."""
