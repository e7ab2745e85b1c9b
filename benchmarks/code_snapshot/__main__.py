"""Command line of the code snapshot; see the package."""
from benchmarks.code_snapshot.command_line import main

if __name__ == "__main__":
    main()
