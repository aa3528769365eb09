// amx_emulation
