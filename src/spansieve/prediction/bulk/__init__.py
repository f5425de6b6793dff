"""Files of any number of rows in, files of entities out."""
