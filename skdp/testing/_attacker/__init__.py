"""An attacker that reads everything a fitted model shows."""
