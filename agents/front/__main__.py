"""``prelaunch`` and ``python -m prelaunch``."""

from __future__ import annotations


def main() -> None:
    from prelaunch.agents.surfaces.cli import run

    run()


if __name__ == "__main__":
    main()
