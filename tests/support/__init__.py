"""Helpers of the test suite that start servers and tools. No test imports pykcoord through them."""
