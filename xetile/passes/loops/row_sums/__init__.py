"""Loop-carried row sums in several columns: one for each lane, or those of a product with ones."""
