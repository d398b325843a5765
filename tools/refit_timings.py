"""Fit the timing models anew and write the committed file (`make fit`)."""

from pathlib import Path

from neuronfleet.serving.replica import timings

if __name__ == "__main__":
    target = Path(timings.__file__).with_name(timings.FILE)
    target.write_text(timings.dump(timings.refit()))
    print(f"wrote {target.name}")
