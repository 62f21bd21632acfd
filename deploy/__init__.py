"""The files that a site installs; `makeway init` writes them."""
