// Nothing: what the tests see is compiled with it, once (tests/CMakeLists.txt).
