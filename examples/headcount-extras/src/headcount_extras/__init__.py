"""What a package from outside can add to headcount; pyproject.toml names the entry points."""
