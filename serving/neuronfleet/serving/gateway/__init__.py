"""HAProxy as the one OpenAI-compatible endpoint for all models of the local fleets."""
