"""The paper's tables and figures, one file each: trained, measured, and written as a page, a CSV and a plot."""
