"""Machine code statistics and the performance model."""
