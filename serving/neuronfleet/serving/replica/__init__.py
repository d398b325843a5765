"""One replica: its timing model and its step machine, shared by planner, simulator and emulator."""
