def compared(f, i): return 0, []
