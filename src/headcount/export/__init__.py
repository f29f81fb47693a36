"""What other tools read: one file per format. `core/exports.py` lists them."""
