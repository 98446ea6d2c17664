"""Adds up the tiers of one `make test` and prints the one line that matters."""

import json
import os
import pathlib
import sys

KINDS = ("passed", "failed", "error", "skipped")
TIERS = pathlib.Path(__file__).parent.parent / "build" / "tests"


def main() -> int:
    reports = [json.loads(path.read_text()) for path in sorted(TIERS.glob("*.json"))]
    total = {kind: sum(report["counts"][kind] for report in reports) for kind in KINDS}
    for report in reports:
        counts = report["counts"]
        print(f"  {counts['passed']:4d} passed, {counts['skipped']} skipped  [{report['tier']}]")
        for line in report["skipped"]:
            print(f"       skipped {line}")
    failed = total["failed"] + total["error"]
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped")
    skips_fail = os.environ.get("CI") == "true" and total["skipped"]
    return 1 if failed or skips_fail or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
