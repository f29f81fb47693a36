"""What every room stands on: errors, files, the cache, progress, provenance, registries, typed settings. No torch."""
