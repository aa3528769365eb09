// amx
