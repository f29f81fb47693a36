"""What other tools read: one file a format. `core/exports.py` lists them."""
