// Empty: compiles the tests' common headers once (tests/CMakeLists.txt).
