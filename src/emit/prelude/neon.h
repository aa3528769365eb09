// neon
