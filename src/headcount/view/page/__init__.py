"""What people look at in a browser. `html`: one file with everything inside. `static/`: what `make page` builds."""
