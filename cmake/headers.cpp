// Nothing: libraries are compiled with what it sees (headers.cmake).
