"""Devices, USM memory, program building and launching, over dpctl."""
