"""A program in the place of a run: leaves the files of one behind, as slowly as it is told.

    python -m stub FOLDER CONFIG

``CONFIG`` is a file with the run's settings. Files beside it, with the run's name, change what
happens: ``NAME.fail`` has one character for each attempt that should fail, ``NAME.wait`` makes the
run wait for a signal after a checkpoint.
"""

import json
import shutil
import signal
import sys
import time
from pathlib import Path


def main(folder, config):
    switches = config.parent / folder.name
    fail, wait = switches.with_suffix(".fail"), switches.with_suffix(".wait")
    print(f"attempt of {folder.name}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    if fail.exists() and fail.read_text():
        fail.write_text(fail.read_text()[1:])
        sys.exit("the device was lost")
    shutil.copy(config, folder / "config.json")
    made = folder / "checkpoints" / "80"
    resumed = made.exists()
    made.mkdir(parents=True, exist_ok=True)
    settings = json.loads(config.read_text())
    line = {"interactions": 80, "updates": 0, "seconds": 3.0, "selfplay/score": 4.0}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    if wait.exists():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
        for _ in range(600):
            if not wait.exists():
                break
            time.sleep(0.1)
    result = {"interactions": settings["interactions"], "updates": 0, "resumed": resumed}
    result |= {"score": 10.0 + settings["seed"], "train_seconds": 36.0, "compile_seconds": 4.0}
    result |= {"evaluate_seconds": 10.0, "versions": {"device": "a stub"}}
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
