// dot
